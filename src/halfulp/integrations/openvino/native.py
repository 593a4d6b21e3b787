"""Power and PReLU of f32, f16 and bf16 for OpenVINO in C++: nodes that do not call into Python.

They are compiled on the user's machine, because OpenVINO's C++ interface changes with each release.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import openvino as ov
from openvino.utils.node_factory import NodeFactory

from halfulp.errors import UnsupportedError
from halfulp.installed import get_include, get_library
from halfulp.integrations.openvino.operators import core

_SOURCE = Path(__file__).with_name("extension.cpp")
_FOLDER = Path(ov.__file__).parent
_TYPES = frozenset({"f32", "f16", "bf16"})
_FLAGS = "-std=c++17 -O2 -shared -fPIC -fvisibility=hidden"


def build() -> str:
    """Compile halfulp's operators of f32, f16 and bf16 for the installed OpenVINO, and return the path of the library.

    From then on ``replace`` uses them, in this and later processes. The library is kept in the user's cache folder, and
    is compiled once for each version of OpenVINO and halfulp, by the compiler that the environment variable CXX names,
    or by c++.

    Raises:
        UnsupportedError: there is no compiler, OpenVINO's package has no headers, or the system is not Linux.
    """
    target = path()
    if not target.is_file():
        patterns = ("libs/libopenvino.so.*", "libs/libtbb.so.*")
        libraries = [str(file) for pattern in patterns for file in _FOLDER.glob(pattern)]
        if platform.system() != "Linux" or len(libraries) != 2 or not (_FOLDER / "include").is_dir():
            raise UnsupportedError(
                "halfulp's operators for OpenVINO in C++ need its headers and libraries",
                expected="pip install openvino, on Linux",
                got=f"openvino {ov.__version__} in {_FOLDER}",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        _compile(target, [*libraries, get_library()])
    _factory.cache_clear()
    return str(target)


def _compile(target: Path, libraries: Sequence[str]) -> None:
    written = target.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    compiler = os.environ.get("CXX") or "c++"
    options = [*_FLAGS.split(), f"-I{get_include()}", f"-I{_FOLDER / 'include'}", "-o", str(written)]
    options += [str(_SOURCE), *libraries, *(f"-Wl,-rpath,{Path(file).parent}" for file in libraries)]
    try:
        done = subprocess.run([compiler, *options], capture_output=True, text=True)
    except OSError as error:
        raise UnsupportedError(
            f"{compiler}: no compiler for C++: {error.strerror}",
            expected="c++, or another one by the environment variable CXX",
        ) from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise UnsupportedError(f"{compiler} does not compile {_SOURCE}: {(errors or [done.stderr])[0]}")
    written.replace(target)


def path() -> Path:
    """Return where the library of this halfulp for this OpenVINO is, or would be."""
    with _SOURCE.open("rb") as source:
        key = hashlib.file_digest(source, "sha256")
    for text in (ov.__version__, str(_FOLDER), get_library()):
        key.update(text.encode())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return folder / "halfulp" / f"openvino-{key.hexdigest()[:16]}.so"


def node(kind: str, inputs: Sequence[Any], attributes: Mapping[str, str]) -> Any:
    """Return an operator in C++; None if it is of another type, or the operators are not built."""
    factory = _factory() if _TYPES.issuperset(attributes["operands"].split(",")) else None
    return None if factory is None else factory.create(kind, list(inputs), dict(attributes))


@cache
def _factory() -> Any:
    if not path().is_file():
        return None
    factory = NodeFactory()
    factory.add_extension(str(path()))
    core().add_extension(str(path()))  # keeps the library, and reads files with the operators
    return factory
