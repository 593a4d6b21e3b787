"""Imports point one way, and importing halfulp loads neither onnx nor a framework."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/halfulp"

# What each part may import of the package, beside itself. ARCHITECTURE.md draws the same.
BASE = {"errors", "types"}
MAY_IMPORT = {
    "errors": set(),
    "types": {"errors"},
    "specs": BASE,
    "reference": BASE,
    "protocols": set(),
    "operands": BASE | {"protocols"},
    "apply": BASE | {"specs", "protocols", "operands", "_core"},
    "__init__": BASE | {"specs", "apply", "models", "conversion", "conformance", "auditing"},
    "models": BASE | {"specs", "operands", "apply"},
    "frontends": {"models"},
    "conversion": BASE | {"specs", "models"},
    "measured": set(),
    "auditing": BASE | {"specs", "models", "conversion", "measured"},
    "backend": BASE | {"specs", "apply", "models"},
    "benchmark": BASE | {"apply"},
    "conformance": BASE
    | {"specs", "protocols", "operands", "apply", "reference", "models", "backend"}
    | {"benchmark", "integrations"},
    "integrations": BASE | {"specs", "operands", "apply", "models"},
    "cli": BASE
    | {"specs", "apply", "models", "conversion", "benchmark", "conformance", "auditing", "integrations"},
    "__main__": {"cli"},
}
FILES = sorted(SOURCE.rglob("*.py"))


def part(path: Path) -> str:
    """Return the part of the package that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Return the parts of the package that a file imports, at its top or inside a function."""
    package = ("halfulp", *path.relative_to(SOURCE).parent.parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith("halfulp.")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    assert imported(path) <= MAY_IMPORT[part(path)] | {part(path)}


def test_every_part_exists() -> None:
    assert {part(path) for path in FILES} | {"_core"} >= set(MAY_IMPORT)


def test_importing_halfulp_loads_no_onnx_and_no_framework() -> None:
    code = "import sys, halfulp; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    unwanted = {"onnx", "google", "typer", "rich", "gmpy2", "onnxruntime", "openvino", "torch", "dask", "jax"}
    assert not loaded & unwanted
