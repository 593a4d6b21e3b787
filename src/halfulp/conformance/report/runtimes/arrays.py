"""Array libraries: what Pow and PRelu mean, in their own words."""

from __future__ import annotations

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.report.literals import VARIABLES, dtype, numpy_has
from halfulp.conformance.runner.targets.array_library import prepare

LIBRARIES = ("numpy", "torch", "jax", "cupy")


def library_of(target: str) -> tuple[str, str] | None:
    """Return the library that a target is, and the device that it computes on; None where it is none."""
    library, _, device = target.removesuffix(")").partition(" (")
    return (library, device or "cpu") if library in LIBRARIES and device in ("", "cuda") else None


def code(library: str, case: Case, device: str = "cpu") -> str:
    """Return the code that computes ``got`` with a library, on a device."""
    if library == "torch":
        return _torch(case, device)
    return _jax(case, device) if library == "jax" else {"numpy": _numpy, "cupy": _cupy}[library](case)


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


def _cupy(case: Case) -> str:
    is_prelu = _is_prelu(case)
    fitted = _fitted(case, number=not is_prelu)
    compute = "cupy.where(x < 0, x * y, x)" if is_prelu else "(x**y).astype(x.dtype)"
    second = "" if "item" in fitted else "y = cupy.asarray(y)\n"
    return f"import cupy\n\n{fitted}x = cupy.asarray(x)\n{second}got = cupy.asnumpy({compute})\n"


def _torch(case: Case, device: str) -> str:
    x, y = case.inputs
    is_prelu = _is_prelu(case)
    fitted = _fitted(case, number=not is_prelu)
    compute = "torch.where(x < 0, x * y, x)" if is_prelu else "torch.pow(x, y)"
    got = "got" if device == "cpu" else "got.cpu()"
    back = f"{got}.numpy()"
    if not numpy_has(x.dtype):
        back = f"{got}.view(torch.{_bits(x)}).numpy().view({dtype(x.dtype)})"
    return (
        "import torch\n\n"
        f"torch.set_num_threads({case.threads or 1})\n"
        f"{fitted}"
        f"{_tensor('x', x, device)}"
        f"{'' if 'item' in fitted else _tensor('y', y, device)}"
        f"got = {compute}.to(x.dtype)\n"
        f"got = {back}\n"
    )


def _tensor(name: str, array: Array, device: str) -> str:
    moved = "" if device == "cpu" else f".to({device!r})"
    if numpy_has(array.dtype):
        return f"{name} = torch.from_numpy({name}){moved}\n"
    return (
        f"{name} = torch.from_numpy({name}.view(np.{_bits(array)})).view(torch.{array.dtype.name}){moved}\n"
    )


def _bits(array: Array) -> str:
    return "int16" if array.dtype.itemsize == 2 else "uint8"


def _jax(case: Case, device: str) -> str:
    fitted = _fitted(case, number=True)
    constants = case.constants | {1} if "item" in fitted else case.constants
    formula = (
        "jax.numpy.where(x < 0, x * y, x)" if _is_prelu(case) else "jax.numpy.power(x, y).astype(x.dtype)"
    )
    fed = ", ".join(name for place, name in enumerate(VARIABLES[:2]) if place not in constants)
    held = "x = jax.numpy.asarray(x)\n" if 0 in constants else ""
    return (
        "import jax\n\n"
        f'jax.config.update("jax_platforms", "{device}")\n'
        'jax.config.update("jax_enable_x64", True)\n'
        f"{fitted}{held}"
        f"got = np.asarray(jax.jit(lambda {fed}: {formula})({fed}))\n"
    )
