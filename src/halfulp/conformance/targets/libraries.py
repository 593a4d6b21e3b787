"""Libraries that take a few lines: a class for each, which loads the library.

It has ``pow``, and perhaps ``prelu``; or ``run``, if it takes ONNX models.
NotImplementedError says that it does not offer the operator or the types.
"""

import ctypes
import ctypes.util
import os
import platform
import tempfile
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx


class Numexpr:
    """numexpr: ``x**y``."""

    def __init__(self) -> None:
        self._evaluate: Any = import_module("numexpr").evaluate

    def pow(self, x: Any, y: Any) -> Any:
        return self._evaluate("x**y", local_dict={"x": x, "y": y}).astype(x.dtype)


class Numba:
    """Numba: a universal function of ``x**y``, which LLVM compiles."""

    def __init__(self) -> None:
        self._power: Any = import_module("numba").vectorize(lambda x, y: x**y)

    def pow(self, x: Any, y: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(self._power(x, y)).astype(x.dtype)


class Paddle:
    """PaddlePaddle: ``paddle.pow``, eagerly on the CPU."""

    def __init__(self) -> None:
        self._paddle: Any = import_module("paddle")
        self._paddle.set_device("cpu")

    def pow(self, x: Any, y: Any) -> Any:
        return self._paddle.pow(self._paddle.to_tensor(x), self._paddle.to_tensor(y)).numpy()


class Mlx:
    """MLX: ``mx.power`` and ``nn.prelu``, on its CPU device."""

    def __init__(self) -> None:
        self._mx: Any = import_module("mlx.core")
        self._nn: Any = import_module("mlx.nn")
        self._mx.set_default_device(self._mx.cpu)

    def pow(self, x: Any, y: Any) -> Any:
        return np.array(self._mx.power(self._mx.array(x), self._mx.array(y)))

    def prelu(self, x: Any, slope: Any) -> Any:
        return np.array(self._nn.prelu(self._mx.array(x), self._mx.array(slope)))


class Mnn:
    """MNN: ``MNN.expr.pow`` of constants."""

    def __init__(self) -> None:
        self._expr: Any = import_module("MNN.expr")

    def pow(self, x: Any, y: Any) -> Any:
        x, y = np.broadcast_arrays(x, y)
        if not x.size:
            raise NotImplementedError("an empty array has no value to read")
        result = self._expr.pow(self._constant(x.ravel()), self._constant(y.ravel())).read()
        return np.asarray(result, x.dtype).reshape(x.shape)

    def _constant(self, array: Any) -> Any:
        kind = self._expr.float if array.dtype == np.float32 else self._expr.int
        return self._expr.const(array.tolist(), list(array.shape), self._expr.NCHW, kind)


class Executorch:
    """ExecuTorch: a module of torch.pow, exported, with the portable kernels."""

    def __init__(self) -> None:
        self._torch: Any = import_module("torch")
        self._to_edge: Any = import_module("executorch.exir").to_edge
        self._runtime: Any = import_module("executorch.runtime").Runtime.get()
        self._methods: dict[Any, Any] = {}  # one program, with the types and shapes that it is for

        class Power(self._torch.nn.Module):  # type: ignore[misc, name-defined]
            forward = staticmethod(self._torch.pow)

        self._power = Power()

    def pow(self, x: Any, y: Any) -> Any:
        arrays = [np.array(operand, order="C") for operand in np.broadcast_arrays(x, y)]
        operands = tuple(map(self._torch.from_numpy, arrays))
        key = tuple((operand.dtype, operand.shape) for operand in operands)
        if key not in self._methods:
            program = self._to_edge(self._torch.export.export(self._power, operands)).to_executorch()
            loaded = self._runtime.load_program(program.buffer)
            self._methods = {key: (program, loaded, loaded.load_method("forward"))}
        (output,) = self._methods[key][-1].execute(list(operands))
        return output.numpy().copy()


class Tensorflow:
    """TensorFlow: ``tf.pow`` of operands of one type, and Keras's PReLU, eagerly on the CPU."""

    def __init__(self) -> None:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        self._tf: Any = import_module("tensorflow")
        self.VERSIONS = {"tensorflow": self._tf.__version__}

    def set_threads(self, threads: int) -> None:
        self._tf.config.threading.set_intra_op_parallelism_threads(threads)
        self._tf.config.threading.set_inter_op_parallelism_threads(1)
        self._tf.pow(self._tf.ones(1), 1.0)

    def pow(self, x: Any, y: Any) -> Any:
        return self._tf.pow(x, y).numpy()

    def prelu(self, x: Any, slope: Any) -> Any:
        if x.dtype.kind in "iu" or not x.ndim or (slope.ndim == x.ndim and slope.shape[0] != 1):
            raise NotImplementedError("Keras has floating slopes, which all of a batch share")
        layer = self._tf.keras.layers.PReLU(dtype=x.dtype.name)
        layer.build(x.shape)
        layer.set_weights([np.broadcast_to(slope[0] if slope.ndim == x.ndim else slope, x.shape[1:])])
        return layer(x).numpy()


class Litert:
    """LiteRT (TensorFlow Lite, 2.3 or later): a model of one POW or PRELU."""

    def __init__(self) -> None:
        self._builder: Any = import_module("flatbuffers").Builder
        self._schema: Any = import_module("ai_edge_litert.schema_py_generated")
        self._interpreter: Any = import_module("ai_edge_litert.interpreter").Interpreter
        self._threads = 1

    def set_threads(self, threads: int) -> None:
        self._threads = threads

    def pow(self, x: Any, y: Any) -> Any:
        return self._run("POW", x, y)

    def prelu(self, x: Any, slope: Any) -> Any:
        if x.dtype != "float32" or (slope.ndim >= x.ndim > 0 and slope.shape[0] != 1):
            raise NotImplementedError("PRELU is of float32, with a slope for all of dim 0")
        per_row = slope[0] if slope.ndim == x.ndim > 0 else slope
        return self._run("PRELU", x, np.broadcast_to(per_row, x.shape[1:]))

    def _run(self, code: str, x: Any, y: Any) -> Any:
        schema, builder = self._schema, self._builder(1024)
        number = getattr(schema.BuiltinOperator, code)
        kind = getattr(schema.TensorType, x.dtype.name.upper())
        tensors = [schema.TensorT(list(array.shape), kind, name=b"t") for array in (x, y, x * y)]
        graph = schema.SubGraphT(tensors, [0, 1], [2], [schema.OperatorT(0, [0, 1], [2])])
        operator = schema.OperatorCodeT(number, version=1, builtinCode=number)
        builder.Finish(
            schema.ModelT(3, [operator], [graph], buffers=[schema.BufferT()]).Pack(builder), b"TFL3"
        )
        interpreter = self._interpreter(model_content=bytes(builder.Output()), num_threads=self._threads)
        interpreter.allocate_tensors()
        for place, operand in enumerate((x, y)):
            interpreter.set_tensor(place, operand)
        interpreter.invoke()
        return interpreter.get_tensor(2)


class Ncnn:
    """ncnn: a net of one BinaryOp or PReLU, in float32 with halves switched off."""

    _POW = "7767517\n3 3\nInput a 0 1 a\nInput b 0 1 b\nBinaryOp p 2 1 a b c 0=6\n"
    _PRELU = "7767517\n2 2\nInput a 0 1 a\nPReLU p 1 1 a c 0={}\n"

    def __init__(self) -> None:
        self._ncnn: Any = import_module("ncnn")

    def set_threads(self, threads: int) -> None:
        self._ncnn.set_omp_num_threads(threads)

    def pow(self, x: Any, y: Any) -> Any:
        return self._run(self._POW, b"\0", *np.broadcast_arrays(x, y))

    def prelu(self, x: Any, slope: Any) -> Any:
        x, slope = np.broadcast_arrays(x, slope)
        return self._run(self._PRELU.format(slope.size), slope.tobytes(), x)

    def _run(self, text: str, weights: bytes, *inputs: Any) -> Any:
        if not inputs[0].size:
            return inputs[0]
        net = self._ncnn.Net()
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.num_threads = self._ncnn.get_omp_num_threads()
        if net.load_param_mem(text) or net.load_model_mem(weights):
            raise RuntimeError("the net was not loaded")
        extractor = net.create_extractor()
        for name, array in zip("ab", inputs, strict=False):
            extractor.input(name, self._ncnn.Mat(np.array(array).ravel()).clone())
        code, output = extractor.extract("c")
        if code:
            raise RuntimeError(f"extract returned {code}")
        return np.array(output).reshape(inputs[0].shape)


class Libm:
    """pow and powf of the C library, called for each element."""

    def __init__(self) -> None:
        self.VERSIONS = {name: version for name, version in [platform.libc_ver()] if name}
        self._library = ctypes.CDLL(ctypes.util.find_library("m"))

    def pow(self, x: Any, y: Any) -> Any:
        return call(self._library, "powf" if x.dtype == np.float32 else "pow", x, y)


def call(library: ctypes.CDLL, name: str, x: Any, y: Any) -> Any:
    """Call ``double f(double, double)``, or a function of floats if its name ends in f, for each element."""
    kind = ctypes.c_float if name.endswith("f") else ctypes.c_double
    function = library[name]
    function.restype, function.argtypes = kind, [kind, kind]
    return np.asarray(np.frompyfunc(function, 2, 1)(x, y)).astype(x.dtype)


# --- runtimes that take ONNX models --------------------------------------------------------------


class Tract:
    """tract, from the ONNX file."""

    def __init__(self) -> None:
        self._tract: Any = import_module("tract")

    def run(self, model: Any, inputs: list[Any]) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            file.write_bytes(model.SerializeToString())
            runnable = self._tract.onnx().load(str(file)).into_model().into_runnable()
        return [output.to_numpy() for output in runnable.run(inputs)]


class Iree:
    """IREE: a module of one ONNX operator, by IREE's importer, compiled for this CPU, on one thread."""

    def __init__(self) -> None:
        self._ir: Any = import_module("iree.compiler.ir")
        self._importer: Any = import_module("iree.compiler.extras.onnx_importer")
        self._compile: Any = import_module("iree.compiler").compile_str
        self._runtime: Any = import_module("iree.runtime")
        self._compiled = lru_cache(16)(self._function)

    def run(self, model: Any, inputs: list[Any]) -> list[Any]:
        values = *model.graph.input, *model.graph.output
        if {value.type.tensor_type.elem_type for value in values} & {onnx.TensorProto.DOUBLE}:
            raise NotImplementedError("IREE demotes float64 to float32")
        return [np.asarray(self._compiled(model.SerializeToString())(*inputs))]

    def _function(self, model: bytes) -> Any:
        info = self._importer.ModelInfo(onnx.load_from_string(model))
        with self._ir.Context():
            module = info.create_module().operation
            self._importer.NodeImporter.define_function(info.main_graph, module).import_all()
            text = str(module)
        target = {"target_backends": ["llvm-cpu"], "extra_args": ["--iree-llvmcpu-target-cpu=host"]}
        program = self._compile(text, input_type="onnx", **target)
        context = self._runtime.SystemContext(config=self._runtime.Config("local-sync"))
        context.add_vm_module(self._runtime.VmModule.copy_buffer(context.instance, program))
        return context.modules.module[info.main_graph.graph_proto.name]


class Tvm:
    """TVM: Relax's importer of ONNX, compiled by LLVM for the CPU."""

    def __init__(self) -> None:
        self._tvm: Any = import_module("tvm")
        self._from_onnx: Any = import_module("tvm.relax.frontend.onnx").from_onnx
        self._compiled = lru_cache(1)(self._machine)

    def run(self, model: Any, inputs: list[Any]) -> list[Any]:
        output = self._compiled(model.SerializeToString())["main"](*map(self._tvm.runtime.tensor, inputs))
        return [output.numpy() if hasattr(output, "numpy") else output[0].numpy()]

    def _machine(self, model: bytes) -> Any:
        module = self._from_onnx(onnx.load_from_string(model), keep_params_in_input=False)
        module = self._tvm.relax.transform.LegalizeOps()(module)
        return self._tvm.relax.VirtualMachine(self._tvm.compile(module, target="llvm"), self._tvm.cpu())
