"""Functions of arrays with the meaning of Pow and PRelu: of array libraries, of the user, of C libraries, of programs.

Pow is x to the power y, in the type in which the library itself computes it, converted to x's type. PRelu is slope
times x where x is below 0, and otherwise x.
"""

from __future__ import annotations

import ctypes
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.targets import CrashedError, NotOfferedError, Target, ending, imported, libraries
from halfulp.types import element_type

_LONGEST_LINE = 1000  # of a program's answer


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


class Functions(Target):
    """Calls ``pow`` and ``prelu`` of a class in ``libraries``, with arrays that broadcast."""

    def __init__(self, threads: int, argument: str) -> None:
        """The argument is the library's name."""
        self._library: Any = getattr(libraries, argument.capitalize())()
        if hasattr(self._library, "set_threads"):
            self._library.set_threads(threads)

    def versions(self) -> dict[str, str]:
        return super().versions() | getattr(self._library, "VERSIONS", {})

    def run(self, case: Case) -> list[Array]:
        function = self._library.prelu if _is_prelu(case) else self._library.pow
        return _called(function, *case.inputs)


class Function(Target):
    """Calls a function of two arrays of one shape. It returns an array of the type and shape of the first one."""

    def __init__(self, threads: int, argument: str) -> None:
        """The argument is its module and name, or its file and name: ``module:f``."""
        self.packages = (argument.partition(":")[0].partition(".")[0],)
        self._function = imported(argument)

    def run(self, case: Case) -> list[Array]:
        return _called(self._function, *map(np.array, np.broadcast_arrays(*case.inputs)))


def _called(function: Callable[..., Any], *operands: Array) -> list[Array]:
    try:
        return [np.asarray(function(*operands))]
    except NotImplementedError as error:
        raise NotOfferedError(str(error)) from None


class Symbol(Target):
    """Calls a function of a C library for each element: ``libfoo.so:powf``."""

    def __init__(self, threads: int, argument: str) -> None:
        path, _, self._name = argument.rpartition(":")
        self._library = ctypes.CDLL(path)
        getattr(self._library, self._name)  # raises AttributeError

    def run(self, case: Case) -> list[Array]:
        return [libraries.call(self._library, self._name, *case.inputs)]


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
