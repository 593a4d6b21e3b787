"""The core: arithmetic on arrays, and a search in ONNX models. Only halfulp.operators imports it."""

from collections.abc import Callable
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

POW: int
POW_DOMAIN_ERROR: int
PRELU: int

class Function:
    """A call of two operands: at once if they are arrays or scalars that the kernel accepts, else by ``general``.

    Args:
        kernel: the kernel's number.
        general: the function to which other operands are left; if None, the call returns None for them.
        exponents: for each element type of the first operand, by number, the second one's as a set of bits.
    """

    def __init__(
        self, kernel: int, general: Callable[..., Any] | None, exponents: tuple[int, ...]
    ) -> None: ...
    def __call__(self, x: object, y: object, /, **keywords: Any) -> Any: ...

def register_type(number: int, name: str) -> None:
    """Make NumPy's type of this number known as the core's element type of this name."""

def apply(
    kernel: int,
    x: object,
    y: object,
    out: NDArray[Any] | None,
    scale_bias: tuple[float, float] | None,
) -> NDArray[Any] | None:
    """Return x kernel y in out or a new array.

    None if an operand is not an ndarray, or does not fit. Also None if out overlaps an operand by its bounds,
    unless it is that very view.
    """

class DefaultEnvironment:
    """The default floating-point environment for the length of a ``with`` statement."""

    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...

def instruction_set() -> str:
    """Return the name of the kernels in use: scalar, avx2 or avx512."""

def share_threads_of(parallel: int, max_threads: int) -> None:
    """Compute on the threads of an OpenMP runtime: the addresses of its GOMP_parallel and omp_get_max_threads."""

def thread_count() -> int:
    """Return how many threads a long call uses."""

def undecided() -> int:
    """Return how many powers even the last phase could not decide; nothing is known that would count."""

def xla_handlers() -> dict[str, Any]:
    """Return the handlers for XLA's foreign function interface by their names, as capsules."""

def powers_of(model: bytes | mmap) -> tuple[bool, bool] | None:
    """Return whether ONNX Runtime may fold powers of a serialized model, and whether it may fuse some.

    It may fold a Pow or PRelu if it knows all operands. It may fuse a Pow where there are operators of a norm or GELU.
    None for a model with halfulp's custom operators. The values of tensors are not read. Raises ValueError if the
    bytes are not a model.
    """

def torch_kernels(find: Callable[[str], int | None], dtypes: dict[int, int]) -> dict[str, int]:
    """Return the addresses of kernels for torch's stable ABI, by their operators.

    find gives the addresses of torch's functions, and dtypes the core's numbers of types for torch's.
    """

def power_ufunc() -> np.ufunc:
    """Return a new ufunc like np.power, whose loops for float16, float32 and float64 are halfulp's."""

def replace_numpy_power(by_halfulps: bool) -> bool:
    """Put halfulp's loops into np.power and np.float_power, or NumPy's back, and return whether np.power calls them."""
