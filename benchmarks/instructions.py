"""Count instructions per element on aarch64, beside the C library's, by qemu: it needs neither an aarch64 nor a clock.

    python benchmarks/instructions.py

On Debian it needs g++-aarch64-linux-gnu, gcc and qemu-user.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = Path(__file__).with_name("instructions")
ELEMENTS, FEW, MANY = (
    2048,
    2,
    12,
)  # the difference between many and few calls excludes the start of the program
FLAGS = ["-std=c++20", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-w", "-static"]
AGAINST = {"float32": "powf", "float64": "pow"}


def build(folder: Path) -> tuple[Path, Path]:
    """Compile the program, with the flags of CMakeLists.txt, and the plugin."""
    program, plugin = folder / "program", folder / "plugin.so"
    kernels = sorted((ROOT / "core" / "kernels").rglob("*.cpp"))
    sources = [SOURCES / "program.cpp", *kernels]
    compiler: list[str | Path] = [
        "aarch64-linux-gnu-g++",
        *FLAGS,
        "-DHALFULP_ISA=scalar",
        f"-I{ROOT / 'core'}",
    ]
    command: list[str | Path] = [*compiler, *sources, "-o", program]
    subprocess.run(command, check=True)
    command = ["gcc", "-shared", "-fPIC", SOURCES / "plugin.c", "-o", plugin]
    subprocess.run(command, check=True)
    return program, plugin


def count(program: Path, plugin: Path, function: str, calls: int) -> int:
    command: list[str | Path] = [
        "qemu-aarch64",
        "-plugin",
        plugin,
        "-d",
        "plugin",
        program,
        function,
        str(calls),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = re.search(r"instructions (\d+)", done.stdout + done.stderr)
    assert found, "qemu did not run the plugin"
    return int(found[1])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program, plugin = build(Path(folder))

        def per_element(function: str) -> float:
            more = count(program, plugin, function, MANY) - count(program, plugin, function, FEW)
            return more / ((MANY - FEW) * ELEMENTS)

        for kernel, library in AGAINST.items():
            a, b = per_element(kernel), per_element(library)
            print(f"{kernel}: {a:.1f} instructions per element; {library}: {b:.1f}; ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
