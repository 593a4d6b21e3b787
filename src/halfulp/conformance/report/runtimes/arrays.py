"""Array libraries: what Pow and PRelu mean, in their own words."""

from __future__ import annotations

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.report.literals import VARIABLES, dtype, numpy_has
from halfulp.conformance.runner.targets.array_library import prepare

LIBRARIES = ("numpy", "torch", "jax")


def code(library: str, case: Case) -> str:
    """Return the code that computes ``got`` with a library.

    Example:
        >>> import numpy as np
        >>> case = Case("", "onnx.Pow-15", "values", (np.ones(3, np.float32), np.ones((), np.int64)),
        ...             constants=frozenset({1}))
        >>> print(code("numpy", case))
        y = y.item()
        got = np.asarray(x**y).astype(x.dtype)
    """
    return {"numpy": _numpy, "torch": _torch, "jax": _jax}[library](case)


def _is_prelu(case: Case) -> bool:
    return case.row.kernel == "prelu"


def _fitted(case: Case, *, number: bool) -> str:
    """Return the code that makes y a number, or gives it the shape that NumPy's broadcasting fits to x."""
    prepared, y = prepare(case), case.inputs[1]
    if number and prepared.number is not None:
        return "y = y.item()\n"
    return "" if prepared.y.shape == y.shape else f"y = y.reshape({prepared.y.shape})\n"


def _numpy(case: Case) -> str:
    if _is_prelu(case):
        return f"{_fitted(case, number=False)}got = np.where(x < 0, x * y, x)\n"
    return f"{_fitted(case, number=True)}got = np.asarray(x**y).astype(x.dtype)\n"


def _torch(case: Case) -> str:
    x, y = case.inputs
    is_prelu = _is_prelu(case)
    fitted = _fitted(case, number=not is_prelu)
    compute = "torch.where(x < 0, x * y, x)" if is_prelu else "torch.pow(x, y)"
    back = "got.numpy()"
    if not numpy_has(x.dtype):
        back = f"got.view(torch.{_bits(x)}).numpy().view({dtype(x.dtype)})"
    return (
        "import torch\n\n"
        f"torch.set_num_threads({case.threads or 1})\n"
        f"{fitted}"
        f"{_tensor('x', x)}"
        f"{'' if 'item' in fitted else _tensor('y', y)}"
        f"got = {compute}.to(x.dtype)\n"
        f"got = {back}\n"
    )


def _tensor(name: str, array: Array) -> str:
    if numpy_has(array.dtype):
        return f"{name} = torch.from_numpy({name})\n"
    return f"{name} = torch.from_numpy({name}.view(np.{_bits(array)})).view(torch.{array.dtype.name})\n"


def _bits(array: Array) -> str:
    return "int16" if array.dtype.itemsize == 2 else "uint8"


def _jax(case: Case) -> str:
    fitted = _fitted(case, number=True)
    constants = case.constants | {1} if "item" in fitted else case.constants
    formula = (
        "jax.numpy.where(x < 0, x * y, x)" if _is_prelu(case) else "jax.numpy.power(x, y).astype(x.dtype)"
    )
    fed = ", ".join(name for place, name in enumerate(VARIABLES[:2]) if place not in constants)
    held = "x = jax.numpy.asarray(x)\n" if 0 in constants else ""
    return (
        "import jax\n\n"
        'jax.config.update("jax_platforms", "cpu")\n'
        'jax.config.update("jax_enable_x64", True)\n'
        f"{fitted}{held}"
        f"got = np.asarray(jax.jit(lambda {fed}: {formula})({fed}))\n"
    )
