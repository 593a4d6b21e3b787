"""``hu.power``, a ufunc with NumPy's rules and halfulp's bits, and ``exact``, which gives np.power these bits.

float16, float32 and float64 are correctly rounded; integers, complex numbers, longdouble and objects are NumPy's own.
"""

import numpy as np

from halfulp.errors import HalfulpError
from halfulp.integrations import Replacement
from halfulp.operators import power_ufunc, replace_numpy_power

__all__ = ["disable", "enable", "exact", "power"]
__dir__ = __all__.copy

# It is pickled by this name, by which no library takes it for np.power.
halfulp_power: np.ufunc = power_ufunc()
power = halfulp_power
__test__ = {"power": str(power.__doc__)}  # for doctest, which looks for functions only


def _put_in() -> None:
    if not replace_numpy_power(True):
        replace_numpy_power(False)
        raise HalfulpError("this version of NumPy does not call new loops of np.power", got=np.__version__)


_POWER = Replacement(_put_in, lambda: replace_numpy_power(False))


def exact() -> Replacement:
    """Return a context in which np.power and np.float_power are correctly rounded: see ``enable``.

    Example:
        >>> with exact():
        ...     np.array([1.1, 2.3], np.float32) ** 2.5
        array([1.2690588, 8.022682 ], dtype=float32)
    """
    return _POWER


def enable() -> None:
    """Let np.power and np.float_power be correctly rounded, in all threads of the process, until ``disable``.

    So is all that calls them: ``**`` and ``**=`` of arrays, ``where=``, ``dtype=``, ``outer``, ``reduce``, ``at``,
    pandas, xarray, dask, SciPy's Python code. NumPy's rules and warnings stay. NumPy's scalars
    (``np.float64(1.1) ** y``) and Python's floats do not call them; ``np.power(1.1, y)`` does.

    Raises:
        HalfulpError: this version of NumPy does not call the new loops.
    """
    _POWER.enable()


disable = _POWER.disable
