"""Libraries whose power is one call: a class for each, which loads the library, has ``pow``, and perhaps ``prelu``."""

import ctypes
import ctypes.util
import platform
from importlib import import_module
from typing import Any

import numpy as np


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
