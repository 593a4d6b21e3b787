"""Functions of arrays with the meaning of Pow and PRelu: of array libraries, of the user, of C libraries, of programs.

Pow is x to the power y, in the type in which the library itself computes it, converted to x's type. PRelu is slope
times x where x is below 0, and otherwise x. A library that takes a few lines is a
function at the end of this file.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import platform
import shlex
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.targets import CrashedError, NotOfferedError, Target, ending, imported
from halfulp.types import element_type

_LONGEST_LINE = 1000  # of a program's answer

_Function = Callable[[Any, Any], Any]


def number_of(case: Case) -> int | float | None:
    """Return y as a Python number where a person would write one, as in ``x ** 3``, and else None.

    That is where it is a constant, or the case is about scalars.
    """
    y = case.inputs[1]
    is_written = not y.ndim and (1 in case.constants or case.aspect == "scalar exponent")
    return y.item() if is_written and y.dtype.kind in "iuf" else None


def _is_prelu(case: Case) -> bool:
    return case.row.kernel == "prelu"


class NumPy(Target):
    """Computes ``x**y``, with ml_dtypes for the types that NumPy lacks, on one thread."""

    packages: tuple[str, ...] = ("numpy", "ml_dtypes")
    _arrays: Any = np  # the module of arrays

    def run(self, case: Case) -> list[Any]:
        x, y = map(self._arrays.asarray, case.inputs)
        with np.errstate(all="ignore"):
            if _is_prelu(case):
                return [self._arrays.where(x < 0, x * y, x)]
            number = number_of(case)
            power = x ** (y if number is None else number)
            return [self._arrays.asarray(power).astype(x.dtype)]


class Function(Target):
    """Calls a function of two arrays of one shape. It returns an array of the type and shape of the first one."""

    def __init__(self, threads: int, argument: str) -> None:
        """The argument is its module and name, or its file and name: ``module:f``."""
        self.packages = (argument.partition(":")[0].partition(".")[0],)
        self._function = imported(argument)

    def run(self, case: Case) -> list[Array]:
        return _called(self._function, *map(np.array, np.broadcast_arrays(*case.inputs)))


def _called(function: _Function, x: Array, y: Array) -> list[Array]:
    try:
        return [np.asarray(function(x, y))]
    except NotImplementedError as error:
        raise NotOfferedError(str(error)) from None


class CuPy(NumPy):
    """Computes ``x**y`` on a CUDA device."""

    packages = ("cupy",)

    def __init__(self, threads: int, argument: str) -> None:
        """Load everything that a device needs before memory is limited."""
        self._arrays = import_module("cupy")
        self._arrays.ones(1)

    def versions(self) -> dict[str, str]:
        """Return CuPy's version and that of CUDA's runtime."""
        return super().versions() | {"CUDA": str(self._arrays.cuda.runtime.runtimeGetVersion())}

    def run(self, case: Case) -> list[Array]:
        return [np.asarray(self._arrays.asnumpy(output)) for output in super().run(case)]


class Torch(Target):
    """Calls ``torch.pow``, eagerly, on the CPU or a CUDA device."""

    packages = ("torch",)

    def __init__(self, threads: int, argument: str) -> None:
        """Set the number of threads and the device, and load everything that it needs before memory is limited."""
        self._torch: Any = import_module("torch")
        self._torch.set_num_threads(threads)
        self._device = self._torch.device(argument)
        self._torch.ones(1, device=self._device)
        self._pow: Any = self._torch.pow

    def run(self, case: Case) -> list[Array]:
        x, y = map(self._tensor, case.inputs)
        if _is_prelu(case):
            result = self._torch.where(x < 0, x * y, x)
        else:
            number = number_of(case)
            result = self._pow(x, y if number is None else number)
        bits = result.to(x.dtype).contiguous().reshape(-1).view(self._torch.uint8).cpu().numpy()
        return [bits.view(case.inputs[0].dtype).reshape(tuple(result.shape))]

    def _tensor(self, array: Array) -> Any:
        # PyTorch names its types as NumPy and ml_dtypes do.
        dtype = getattr(self._torch, element_type(array.dtype).name)
        bits = self._torch.from_numpy(np.array(array, order="C").reshape(-1).view(np.uint8))
        return bits.view(dtype).reshape(array.shape).to(self._device)


class Inductor(Torch):
    """Calls ``torch.pow`` compiled by torch.compile: C++ on the CPU, Triton on a CUDA device."""

    def __init__(self, threads: int, argument: str) -> None:
        super().__init__(threads, argument)
        torch = self._torch
        torch._dynamo.config.cache_size_limit = 1 << 20
        self._pow: Any = torch.compile(lambda x, y: torch.pow(x, y), dynamic=True)


class Jax(Target):
    """Compiles a function of the operands that are not constants, with 64-bit types, on the CPU or a CUDA device."""

    packages = ("jax", "jaxlib")

    def __init__(self, threads: int, argument: str) -> None:
        """Set the device, and load everything that it needs; the number of threads comes from the environment."""
        self._jax: Any = import_module("jax")
        self._jax.config.update("jax_platforms", argument)
        self._jax.config.update("jax_enable_x64", True)
        self._jax.numpy.ones(1).block_until_ready()
        self._function = self._jax.jit(self._compute, static_argnums=(2,))

    def run(self, case: Case) -> list[Array]:
        constants = case.constants
        operands: list[Any] = [*case.inputs]
        if (number := number_of(case)) is not None:
            constants, operands[1] = constants | {1}, number
        if not constants:
            # One compilation serves all cases of these types and shapes.
            return [np.asarray(self._function(*operands, _is_prelu(case)))]

        def function(*fed: Any) -> Any:
            values = iter(fed)
            x, y = (operands[i] if i in constants else next(values) for i in (0, 1))
            return self._compute(self._jax.numpy.asarray(x), y, _is_prelu(case))

        fed = [operands[i] for i in (0, 1) if i not in constants]
        return [np.asarray(self._jax.jit(function)(*fed))]

    def _compute(self, x: Any, y: Any, is_prelu: bool) -> Any:
        if is_prelu:
            return self._jax.numpy.where(x < 0, x * y, x)
        return self._jax.numpy.power(x, y).astype(x.dtype)


class Pipe(Target):
    """Starts a program once, and asks it for each case on its standard input: a kernel in C or any other language.

    A request is a line of text, then the elements of x and those of y, little-endian, in arrays of one shape::

        pow float32 int64 1000 4000 8000

    It names the operation (pow or prelu), the types of x and y, the number of elements, and the bytes of x and of y.
    The answer is a line ``ok``, then the result's elements, of x's type; or a line ``no``, with a reason, if the
    program does not offer this. NumPy's names of types are used. Types of less than 8 bits take a byte for each
    element.
    """

    def __init__(self, threads: int, argument: str) -> None:
        """Start it; its argument is the command."""
        words = shlex.split(argument)
        self._process: Any = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, case: Case) -> list[Array]:
        operands = np.broadcast_arrays(*case.inputs)
        x, y = (operand.astype(operand.dtype.newbyteorder("<")) for operand in operands)
        name = "prelu" if _is_prelu(case) else "pow"
        line = " ".join((name, *case.types, *map(str, (x.size, x.nbytes, y.nbytes))))
        with suppress(BrokenPipeError):  # then there is no answer
            self._process.stdin.write(f"{line}\n".encode() + x.tobytes() + y.tobytes())
            self._process.stdin.flush()
        answer = self._process.stdout.readline(_LONGEST_LINE).decode(errors="replace").split(maxsplit=1)
        if answer[:1] == ["no"]:
            raise NotOfferedError("".join(answer[1:]))
        if answer not in (["ok"], []):
            raise CrashedError(f"its answer is neither ok nor no: {' '.join(answer)}")
        data = self._process.stdout.read(x.nbytes)
        if not answer or len(data) < x.nbytes:
            raise CrashedError(ending(self._process.wait()))
        return [np.frombuffer(data, x.dtype).reshape(x.shape)]


# --- libraries that take a few lines: a function for each loads it -----------------------------------


class Library(Target):
    """Calls functions of arrays that broadcast; NotImplementedError says that the library lacks the types."""

    def __init__(
        self, pow: _Function, prelu: _Function | None = None, versions: Iterable[tuple[str, str]] = ()
    ) -> None:
        """``versions`` are those of the library that no package of its name installs."""
        self._functions, self._versions = {"pow": pow, "prelu": prelu}, versions

    def versions(self) -> dict[str, str]:
        return super().versions() | dict(self._versions)

    def run(self, case: Case) -> list[Array]:
        function: Any = self._functions["prelu" if _is_prelu(case) else "pow"]
        return _called(function, *case.inputs)


def symbol(threads: int, argument: str) -> Target:
    """Load a function of a C library, which is called for each element: ``libfoo.so:powf``."""
    path, _, name = argument.rpartition(":")
    return Library(_function_of(ctypes.CDLL(path), name))


def libm(threads: int, argument: str) -> Target:
    """Load pow and powf of the C library."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    functions = {"float32": _function_of(library, "powf"), "float64": _function_of(library, "pow")}
    versions = [platform.libc_ver()] if platform.libc_ver()[0] else []
    return Library(lambda x, y: functions[x.dtype.name](x, y), versions=versions)


def _function_of(library: ctypes.CDLL, name: str) -> _Function:
    """Return ``double f(double, double)``, or of floats if its name ends in f, as a function of arrays."""
    kind = ctypes.c_float if name.endswith("f") else ctypes.c_double
    function = library[name]
    function.restype, function.argtypes = kind, [kind, kind]
    of_elements = np.frompyfunc(function, 2, 1)
    return lambda x, y: np.asarray(of_elements(x, y)).astype(x.dtype)


def numexpr(threads: int, argument: str) -> Target:
    evaluate: Any = import_module("numexpr").evaluate
    return Library(lambda x, y: evaluate("x**y", local_dict={"x": x, "y": y}).astype(x.dtype))


def numba(threads: int, argument: str) -> Target:
    """Compile ``x**y`` by LLVM, as a universal function."""
    power: Any = import_module("numba").vectorize(lambda x, y: x**y)
    return Library(np.errstate(all="ignore")(lambda x, y: np.asarray(power(x, y)).astype(x.dtype)))


def paddle(threads: int, argument: str) -> Target:
    paddle: Any = import_module("paddle")
    paddle.set_device("cpu")
    return Library(lambda x, y: paddle.pow(paddle.to_tensor(x), paddle.to_tensor(y)).numpy())


def mlx(threads: int, argument: str) -> Target:
    mx: Any = import_module("mlx.core")
    nn: Any = import_module("mlx.nn")
    mx.set_default_device(mx.cpu)
    return Library(
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

    return Library(power)


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

    return Library(power)


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

    return Library(lambda x, y: tf.pow(x, y).numpy(), prelu, [("tensorflow", tf.__version__)])


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

    return Library(lambda x, y: run("POW", x, y), prelu)


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

    return Library(power, prelu)
