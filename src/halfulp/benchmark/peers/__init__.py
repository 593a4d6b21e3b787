"""The libraries side by side: one file each, with the one function ``prepare``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from halfulp.benchmark.case import Array, Case
from halfulp.installed import version_of

# The names of their packages, and of the files here.
PEERS = ("numpy", "torch", "onnxruntime", "openvino", "numexpr", "jax", "numba")
LIBRARIES = ("halfulp", *PEERS)


class RefusalError(Exception):
    """A library does not do this, or not for these types; the text is what it says of it."""


class Prepared(NamedTuple):
    """A computation that is ready to be called again and again, its operands in place.

    Attributes:
        call: computes all results, and returns when that is done; where the library allows, into memory
            that is there already.
        to_numpy: makes an array of what ``call`` returned.
    """

    call: Callable[[], Any]
    to_numpy: Callable[[Any], Array]


def versions() -> dict[str, str]:
    """Return the versions of the libraries that are installed, by name."""
    found = {name: version_of(name) for name in LIBRARIES}
    found["halfulp"] = found["halfulp"] or "(source tree)"
    return {name: version for name, version in found.items() if version is not None}


def prepare(name: str, case: Case, threads: int) -> Prepared:
    """Return a library's way of computing a case.

    Raises:
        RefusalError: the library does not do this, or not for these types.
    """
    module = import_module(f"halfulp.benchmark.peers.{name}")
    try:
        prepared: Prepared = module.prepare(case, threads)
        result = prepared.to_numpy(prepared.call())
    except Exception as error:  # each library has its own kinds
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise RefusalError(lines[0]) from error
    if result.dtype != case.x.dtype or result.shape != case.shape:
        raise RefusalError(f"the result is {result.dtype}{result.shape}")
    return prepared
