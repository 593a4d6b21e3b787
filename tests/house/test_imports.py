"""Imports point one way and in no circle; importing halfulp loads neither onnx nor a framework."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/halfulp"

# What each part may import of the package, beside itself. ARCHITECTURE.md draws the same.
BASE = {"errors", "types", "installed"}
MAY_IMPORT = {
    **{name: set() for name in ("errors", "measured", "options")},
    "installed": {"errors"},
    "types": {"errors"},
    "specs": BASE,
    "pages": BASE | {"specs"},
    "reference": BASE,
    "_interop": {"errors", "types"},
    "cuda": BASE | {"specs", "_interop", "_cuda"},
    "operators": BASE | {"specs", "pages", "_interop", "cuda", "_core"},
    "__init__": BASE
    | {"specs", "operators", "models", "conversion", "conformance", "auditing", "running"}
    | {"integrations"},
    "models": BASE | {"specs", "_interop", "operators"},
    "conversion": BASE | {"options", "specs", "operators", "models", "measured", "integrations"},
    "auditing": BASE | {"specs", "pages", "operators", "models", "conversion", "measured", "integrations"},
    "backend": BASE | {"specs", "operators", "models"},
    "running": BASE | {"models", "conversion", "auditing", "integrations"},
    "benchmark": BASE | {"_interop", "operators", "models", "conversion", "integrations"},
    "conformance": BASE
    | {"specs", "pages", "_interop", "operators", "reference", "models", "backend"}
    | {"integrations", "options"},
    "integrations": BASE | {"specs", "_interop", "operators", "models", "cuda"},
    "cli": BASE
    | {
        *("_interop", "specs", "pages", "operators", "models", "conversion", "benchmark", "conformance"),
        *("auditing", "integrations", "measured", "running", "doors", "options"),
    },
    "doors": BASE | {"operators"},
    "__main__": {"cli", "installed"},
}
FILES = sorted(SOURCE.rglob("*.py"))

Graph = dict[str, set[str]]


def part(path: Path) -> str:
    """Return the part of the package that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def module(path: Path, source: Path = SOURCE) -> str:
    """Return the name of a file's module."""
    return ".".join(["halfulp", *path.relative_to(source).with_suffix("").parts]).removesuffix(".__init__")


def imported(path: Path, source: Path = SOURCE) -> set[str]:
    """Return the names in the package that a file imports, at its top or inside a function."""
    package = ("halfulp", *path.relative_to(source).parent.parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("halfulp.")}


def imports_of_files(source: Path) -> Graph:
    """Return for each module of a source tree the modules that it imports."""
    files = {module(path, source): path for path in source.rglob("*.py")}

    def file_of(name: str) -> str | None:
        # What is no module is a name in one, or a compiled module.
        if name in files or name in ("halfulp._core", "halfulp._cuda"):
            return name
        return file_of(name.rpartition(".")[0]) if "." in name else None

    graph: Graph = {}
    for name, path in files.items():
        targets = {file_of(target) for target in imported(path, source)}
        graph[name] = {target for target in targets if target in files and target != name}
    return graph


def within(graph: Graph, package: str) -> Graph:
    """Return the imports between what lies in a package: its files, and its packages as wholes."""
    depth = package.count(".") + 2
    found: Graph = {}
    for name, targets in graph.items():
        if name.startswith(f"{package}."):
            inside = {target for target in targets if target.startswith(f"{package}.")}
            child = ".".join(name.split(".")[:depth])
            found.setdefault(child, set()).update(".".join(target.split(".")[:depth]) for target in inside)
    return {child: targets - {child} for child, targets in found.items()}


def circle(graph: Graph) -> list[str]:
    """Return the modules of a circle of imports, the first one again at the end; nothing where there is none."""
    left = {name: set(targets) for name, targets in graph.items()}
    while ends := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in ends:
            del left[name]
    way = [min(left)] if left else []
    while way and way[-1] not in way[:-1]:
        way.append(min(left[way[-1]] & left.keys()))
    return way[way.index(way[-1]) :] if way else []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    parts = {name.split(".")[1] for name in imported(path)}
    assert parts <= MAY_IMPORT[part(path)] | {part(path)}


@pytest.fixture(scope="module")
def imports() -> Graph:
    return imports_of_files(SOURCE)


def test_no_file_imports_itself_by_way_of_others(imports):
    assert circle(imports) == []


@pytest.mark.parametrize("package", sorted(module(path) for path in FILES if path.name == "__init__.py"))
def test_no_package_imports_itself_by_way_of_others(package, imports):
    assert circle(within(imports, package)) == []


def test_every_part_exists():
    assert {part(path) for path in FILES} | {"_core"} >= set(MAY_IMPORT)


def test_importing_halfulp_loads_no_onnx_and_no_framework(python):
    code = "import sys, halfulp; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(python(code).split())
    assert "numpy" in loaded
    unwanted = {"onnx", "google", "typer", "rich", "gmpy2", "onnxruntime", "openvino", "torch", "dask", "jax"}
    assert not loaded & unwanted
