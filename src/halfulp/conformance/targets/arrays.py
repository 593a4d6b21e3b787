"""Functions of arrays with the meaning of Pow and PRelu: of array libraries, of the user, of C libraries, of programs.

Pow is x to the power y, in the type in which the library itself computes it, converted to x's type. PRelu is slope
times x where x is below 0, and otherwise x. A function for each target loads it.
"""

import ctypes
import ctypes.util
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.targets import CrashedError, NotOfferedError, Target, ending, imported
from halfulp.types import element_type

_LONGEST_LINE = 1000  # of a program's answer


def _written(case: Case, otherwise: Any = None) -> Any:
    """Return y as a Python number where a person would write one, as in ``x ** 3``: as a constant or of scalars."""
    y = case.inputs[1]
    is_written = not y.ndim and (1 in case.constants or case.aspect == "scalar exponent")
    return y.item() if is_written and y.dtype.kind in "iuf" else otherwise


def _is_prelu(case: Case) -> bool:
    return case.row.kernel == "prelu"


def _of_namespace(name: str, threads: int, argument: str) -> Target:
    """Compute ``x**y``, with all that it needs loaded before memory is limited."""
    xp: Any = import_module(name)
    xp.ones(1)
    to_numpy = getattr(xp, "asnumpy", np.asarray)
    told = {"CUDA": str(xp.cuda.runtime.runtimeGetVersion())} if name == "cupy" else {}

    @np.errstate(all="ignore")
    def run(case: Case) -> list[Array]:
        x, y = map(xp.asarray, case.inputs)
        if _is_prelu(case):
            return [to_numpy(xp.where(x < 0, x * y, x))]
        return [to_numpy(xp.asarray(x ** _written(case, y)).astype(x.dtype))]

    return Target(run, versions=told)


numpy = partial(_of_namespace, "numpy")  # on one thread, with ml_dtypes for the types that NumPy lacks
cupy = partial(_of_namespace, "cupy")  # on a CUDA device


def torch(threads: int, argument: str, *, is_compiled: bool = False) -> Target:
    """Call ``torch.pow``, eagerly, on the CPU or a CUDA device, with all that it needs loaded."""
    torch: Any = import_module("torch")
    torch.set_num_threads(threads)
    device, power = torch.device(argument), torch.pow
    torch.ones(1, device=device)
    if is_compiled:
        torch._dynamo.config.cache_size_limit = 1 << 20
        power = torch.compile(lambda x, y: torch.pow(x, y), dynamic=True)

    def tensor(array: Array) -> Any:
        # PyTorch names its types as NumPy and ml_dtypes do.
        dtype = getattr(torch, element_type(array.dtype).name)
        bits = torch.from_numpy(np.array(array, order="C").reshape(-1).view(np.uint8))
        return bits.view(dtype).reshape(array.shape).to(device)

    def run(case: Case) -> list[Array]:
        x, y = map(tensor, case.inputs)
        result = torch.where(x < 0, x * y, x) if _is_prelu(case) else power(x, _written(case, y))
        bits = result.to(x.dtype).contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
        return [bits.view(case.inputs[0].dtype).reshape(tuple(result.shape))]

    return Target(run)


inductor = partial(torch, is_compiled=True)  # by torch.compile: C++ on the CPU, Triton on a CUDA device


def jax(threads: int, argument: str) -> Target:
    """Compile a function of the operands that are no constants, with 64-bit types; the environment sets the threads."""
    jax: Any = import_module("jax")
    jax.config.update("jax_platforms", argument)
    jax.config.update("jax_enable_x64", True)
    jax.numpy.ones(1).block_until_ready()  # all that a device needs is loaded

    def compute(x: Any, y: Any, is_prelu: bool) -> Any:
        x = jax.numpy.asarray(x)
        return jax.numpy.where(x < 0, x * y, x) if is_prelu else jax.numpy.power(x, y).astype(x.dtype)

    # One compilation serves all cases without constants of these types and shapes.
    compiled = jax.jit(compute, static_argnames="is_prelu")

    def run(case: Case) -> list[Array]:
        operands = dict(zip("xy", case.inputs, strict=True))
        held: dict[str, Any] = {"xy"[place]: case.inputs[place] for place in case.constants}
        if (number := _written(case)) is not None:
            held["y"] = number
        fed = {name: operand for name, operand in operands.items() if name not in held}
        called = jax.jit(partial(compute, **held), static_argnames="is_prelu") if held else compiled
        return [np.asarray(called(**fed, is_prelu=_is_prelu(case)))]

    return Target(run)


def function(threads: int, argument: str) -> Target:
    """Call a function of two arrays of one shape, ``module:f``, which returns one of the first's type and shape."""
    called = imported(argument)

    def of_one_shape(x: Any, y: Any) -> Any:
        return called(*map(np.array, np.broadcast_arrays(x, y)))

    return library(of_one_shape, of_one_shape)


def pipe(threads: int, argument: str) -> Target:
    """Start a program once, and ask it for each case as docs/how-to/check-your-runtime.md says."""
    process: Any = subprocess.Popen(shlex.split(argument), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(case: Case) -> list[Array]:
        operands = np.broadcast_arrays(*case.inputs)
        x, y = (operand.astype(operand.dtype.newbyteorder("<")) for operand in operands)
        name = "prelu" if _is_prelu(case) else "pow"
        line = " ".join((name, *case.types, *map(str, (x.size, x.nbytes, y.nbytes))))
        with suppress(BrokenPipeError):  # then there is no answer
            process.stdin.write(f"{line}\n".encode() + x.tobytes() + y.tobytes())
            process.stdin.flush()
        answer = process.stdout.readline(_LONGEST_LINE).decode(errors="replace").split(maxsplit=1)
        if answer[:1] == ["no"]:
            raise NotOfferedError("".join(answer[1:]))
        if answer not in (["ok"], []):
            raise CrashedError(f"its answer is neither ok nor no: {' '.join(answer)}")
        data = process.stdout.read(x.nbytes)
        if not answer or len(data) < x.nbytes:
            raise CrashedError(ending(process.wait()))
        return [np.frombuffer(data, x.dtype).reshape(x.shape)]

    return Target(run)


# --- libraries that take a few lines -----------------------------------------------------------------


def library(pow: Any, prelu: Any = None, versions: Mapping[str, str] = {}) -> Target:
    """Return the target of functions of arrays that broadcast; by NotImplementedError they lack the types."""

    def run(case: Case) -> list[Array]:
        return [np.asarray((prelu if _is_prelu(case) else pow)(*case.inputs))]

    return Target(run, versions=versions, not_offered=NotImplementedError)


def symbol(threads: int, argument: str) -> Target:
    """Load a function of a C library, which is called for each element: ``libfoo.so:powf``."""
    path, _, name = argument.rpartition(":")
    return library(_function_of(ctypes.CDLL(path), name))


def libm(threads: int, argument: str) -> Target:
    """Load pow and powf of the C library."""
    loaded = ctypes.CDLL(ctypes.util.find_library("m"))
    functions = {"float32": _function_of(loaded, "powf"), "float64": _function_of(loaded, "pow")}
    name, version = platform.libc_ver()
    return library(lambda x, y: functions[x.dtype.name](x, y), versions={name: version} if name else {})


def _function_of(library: ctypes.CDLL, name: str) -> Any:
    """Return ``double f(double, double)``, or of floats if its name ends in f, as a function of arrays."""
    kind = ctypes.c_float if name.endswith("f") else ctypes.c_double
    function = library[name]
    function.restype, function.argtypes = kind, [kind, kind]
    return np.vectorize(function, [np.dtype(kind)])


def numexpr(threads: int, argument: str) -> Target:
    evaluate: Any = import_module("numexpr").evaluate
    return library(lambda x, y: evaluate("x**y", local_dict={"x": x, "y": y}).astype(x.dtype))


def numba(threads: int, argument: str) -> Target:
    """Compile ``x**y`` by LLVM, as a universal function."""
    power: Any = import_module("numba").vectorize(lambda x, y: x**y)
    return library(np.errstate(all="ignore")(lambda x, y: np.asarray(power(x, y)).astype(x.dtype)))


def paddle(threads: int, argument: str) -> Target:
    paddle: Any = import_module("paddle")
    paddle.set_device("cpu")
    return library(lambda x, y: paddle.pow(paddle.to_tensor(x), paddle.to_tensor(y)).numpy())


def mlx(threads: int, argument: str) -> Target:
    mx: Any = import_module("mlx.core")
    nn: Any = import_module("mlx.nn")
    mx.set_default_device(mx.cpu)
    return library(
        lambda x, y: np.array(mx.power(mx.array(x), mx.array(y))),
        lambda x, slope: np.array(nn.prelu(mx.array(x), mx.array(slope))),
    )


def mnn(threads: int, argument: str) -> Target:
    """Take powers of constants, in the language of MNN's expressions."""
    expr: Any = import_module("MNN.expr")

    def constant(array: Array) -> Any:
        kind = expr.float if array.dtype == np.float32 else expr.int
        return expr.const(array.tolist(), list(array.shape), expr.NCHW, kind)

    def power(x: Any, y: Any) -> Array:
        x, y = np.broadcast_arrays(x, y)
        if not x.size:
            raise NotImplementedError("an empty array has no value to read")
        result = expr.pow(constant(x.ravel()), constant(y.ravel())).read()
        return np.asarray(result, x.dtype).reshape(x.shape)

    return library(power)


def executorch(threads: int, argument: str) -> Target:
    """Export a module of torch.pow for the portable kernels."""
    torch: Any = import_module("torch")
    to_edge: Any = import_module("executorch.exir").to_edge
    runtime: Any = import_module("executorch.runtime").Runtime.get()
    module = type("Power", (torch.nn.Module,), {"forward": staticmethod(torch.pow)})()
    methods: dict[Any, Any] = {}  # one program, with the types and shapes that it is for

    def power(x: Any, y: Any) -> Any:
        arrays = [np.array(operand, order="C") for operand in np.broadcast_arrays(x, y)]
        operands = tuple(map(torch.from_numpy, arrays))
        key = tuple((operand.dtype, operand.shape) for operand in operands)
        if key not in methods:
            program = to_edge(torch.export.export(module, operands)).to_executorch()
            loaded = runtime.load_program(program.buffer)
            methods.clear()
            methods[key] = (program, loaded, loaded.load_method("forward"))
        (output,) = methods[key][-1].execute(list(operands))
        return output.numpy().copy()

    return library(power)


def tensorflow(threads: int, argument: str) -> Target:
    """Take ``tf.pow`` of operands of one type, and Keras's PReLU, eagerly on the CPU."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    tf: Any = import_module("tensorflow")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.pow(tf.ones(1), 1.0)

    def prelu(x: Any, slope: Any) -> Any:
        if x.dtype.kind in "iu" or not x.ndim or (slope.ndim == x.ndim and slope.shape[0] != 1):
            raise NotImplementedError("Keras has floating slopes, which all of a batch share")
        layer = tf.keras.layers.PReLU(dtype=x.dtype.name)
        layer.build(x.shape)
        layer.set_weights([np.broadcast_to(slope[0] if slope.ndim == x.ndim else slope, x.shape[1:])])
        return layer(x).numpy()

    return library(lambda x, y: tf.pow(x, y).numpy(), prelu, {"tensorflow": tf.__version__})


def litert(threads: int, argument: str) -> Target:
    """Make a model of one POW or PRELU for LiteRT (TensorFlow Lite, 2.3 or later)."""
    schema: Any = import_module("ai_edge_litert.schema_py_generated")
    new_builder: Any = import_module("flatbuffers").Builder
    new_interpreter: Any = import_module("ai_edge_litert.interpreter").Interpreter

    def run(code: str, x: Any, y: Any) -> Any:
        builder, number = new_builder(1024), getattr(schema.BuiltinOperator, code)
        kind = getattr(schema.TensorType, x.dtype.name.upper())
        tensors = [schema.TensorT(list(array.shape), kind, name=b"t") for array in (x, y, x * y)]
        graph = schema.SubGraphT(tensors, [0, 1], [2], [schema.OperatorT(0, [0, 1], [2])])
        operator = schema.OperatorCodeT(number, version=1, builtinCode=number)
        model = schema.ModelT(3, [operator], [graph], buffers=[schema.BufferT()])
        builder.Finish(model.Pack(builder), b"TFL3")
        interpreter = new_interpreter(model_content=bytes(builder.Output()), num_threads=threads)
        interpreter.allocate_tensors()
        for place, operand in enumerate((x, y)):
            interpreter.set_tensor(place, operand)
        interpreter.invoke()
        return interpreter.get_tensor(2)

    def prelu(x: Any, slope: Any) -> Any:
        if x.dtype != "float32" or (slope.ndim >= x.ndim > 0 and slope.shape[0] != 1):
            raise NotImplementedError("PRELU is of float32, with a slope for all of dim 0")
        per_row = slope[0] if slope.ndim == x.ndim > 0 else slope
        return run("PRELU", x, np.broadcast_to(per_row, x.shape[1:]))

    return library(lambda x, y: run("POW", x, y), prelu)


def ncnn(threads: int, argument: str) -> Target:
    """Make a net of one BinaryOp or PReLU, in float32 with halves switched off."""
    ncnn: Any = import_module("ncnn")
    ncnn.set_omp_num_threads(threads)

    def run(layers: str, weights: bytes, *inputs: Any) -> Any:
        if not inputs[0].size:
            return inputs[0]
        net = ncnn.Net()
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.num_threads = ncnn.get_omp_num_threads()
        if net.load_param_mem(f"7767517\n{layers}") or net.load_model_mem(weights):
            raise RuntimeError("the net was not loaded")
        extractor = net.create_extractor()
        for name, array in zip("ab", inputs, strict=False):
            extractor.input(name, ncnn.Mat(np.array(array).ravel()).clone())
        code, output = extractor.extract("c")
        if code:
            raise RuntimeError(f"extract returned {code}")
        return np.array(output).reshape(inputs[0].shape)

    def power(x: Any, y: Any) -> Any:
        layers = "3 3\nInput a 0 1 a\nInput b 0 1 b\nBinaryOp p 2 1 a b c 0=6\n"
        return run(layers, b"\0", *np.broadcast_arrays(x, y))

    def prelu(x: Any, slope: Any) -> Any:
        x, slope = np.broadcast_arrays(x, slope)
        return run(f"2 2\nInput a 0 1 a\nPReLU p 1 1 a c 0={slope.size}\n", slope.tobytes(), x)

    return library(power, prelu)
