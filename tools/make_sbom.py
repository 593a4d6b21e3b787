"""Make the software bill of materials (CycloneDX 1.6) of a wheel: the third-party code in its extensions.

The build puts it into the wheel's ``.dist-info/sboms/`` (PEP 770). It contains the texts of the licenses, which must be
distributed with the wheel. It contains no time and no machine, so that the same build makes the same bytes.

    python tools/make_sbom.py build/halfulp.cdx.json --compiler GNU 12.2.0
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

# The compiler's own library, of which a few functions are linked into each extension, by CMake's name of the compiler.
RUNTIMES = {
    "GNU": ("libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    "Clang": ("compiler-rt", "Apache-2.0 WITH LLVM-exception"),
    "AppleClang": ("compiler-rt", "Apache-2.0 WITH LLVM-exception"),
}
NVRTC = "nvidia-cuda-nvrtc"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument(
        "--compiler", nargs=2, required=True, metavar=("NAME", "VERSION"), help="as CMake has them"
    )
    parser.add_argument("--cuda", action="store_true", help="the kernels for CUDA's devices are there")
    arguments = parser.parse_args()
    compiler, version = arguments.compiler
    arguments.output.write_text(json.dumps(bill(compiler, version, arguments.cuda), indent=1) + "\n")


def bill(compiler: str, version: str, cuda: bool) -> dict[str, Any]:
    """Return the document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = str(project["name"])
    own = component(name, project["version"], f"pkg:pypi/{name}@{project['version']}")
    parts = linked(compiler, version)
    tools = [{"type": "application", "name": compiler, "version": version}]
    packages = (NVRTC, "ziglang") if cuda else ()
    tools += [
        {"type": "application", "name": name, "version": distribution(name).version} for name in packages
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": tools},
            "component": own | {"licenses": [{"license": {"id": project["license"]}}]},
        },
        "components": parts,
        "dependencies": [{"ref": name, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def linked(compiler: str, version: str) -> list[dict[str, Any]]:
    """Return the components that are linked into the extensions."""
    nanobind = distribution("nanobind")
    header = text_of(nanobind, "robin_growth_policy.h")
    parts = re.findall(r"define TSL_RH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header)
    if len(parts) != 3:
        raise SystemExit("make_sbom: nanobind's robin_map names no version")
    robin_map = ".".join(parts)
    notice = re.sub(r"(?m)^ \* ?", "", header.partition("/**\n")[2].partition(" */")[0])
    found = [
        component("nanobind", nanobind.version, f"pkg:pypi/nanobind@{nanobind.version}")
        | licensed("BSD-3-Clause", text_of(nanobind, "LICENSE")),
        component("robin-map", robin_map, f"pkg:github/tessil/robin-map@v{robin_map}")
        | licensed("MIT", notice),
    ]
    if compiler in RUNTIMES:
        name, expression = RUNTIMES[compiler]
        runtime = component(name, version, f"pkg:generic/{name}@{version}")
        found.append(runtime | {"licenses": [{"expression": expression}]})
    return found


def component(name: str, version: str, purl: str) -> dict[str, Any]:
    """Return a component without its license."""
    return {"type": "library", "bom-ref": name, "name": name, "version": version, "purl": purl}


def licensed(identifier: str, text: str) -> dict[str, Any]:
    """Return a license with its text."""
    content = {"contentType": "text/plain", "content": text}
    return {"licenses": [{"license": {"id": identifier, "text": content}}]}


def text_of(package: Distribution, name: str) -> str:
    """Return the text of an installed package's file."""
    (file,) = [file for file in package.files or [] if file.name == name]
    return Path(str(package.locate_file(file))).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
