"""Other processors and systems give the same bits: emulated by qemu and Wine. And what is compiled only, by zig."""

import sys
from importlib.util import find_spec

import pytest
from tests.house.builds import FOLDER, ROOT, WORST_CASES, build, build_here, cross, run, tool

# By CMake's name, which is the compiler's too: the name that qemu has for it.
PROCESSORS = {"aarch64": "aarch64", "riscv64": "riscv64", "s390x": "s390x", "powerpc64le": "ppc64le"}
# By zig's name: CMake's names of the system and the processor.
ZIG_TARGETS = {
    "aarch64-macos": ("Darwin", "arm64"),
    "x86_64-macos": ("Darwin", "x86_64"),
    "x86_64-windows-gnu": ("Windows", "AMD64"),
    "x86_64-linux-musl": ("Linux", "x86_64"),
}
# Zig spells the names of processors with underscores.
ZIG = """#!/bin/bash
arguments=("${{@/#-march=x86-64/-march=x86_64}}")
exec {python} -m ziglang c++ -target {target} "${{arguments[@]/#-march=x86_64-/-march=x86_64_}}"
"""
MINGW = "x86_64-w64-mingw32-g++-posix"
pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize("processor", PROCESSORS)
def test_another_processor_gives_the_same_bits(processor):
    emulator = tool(f"qemu-{PROCESSORS[processor]}")
    folder = build(f"g++-{processor}", f"{processor}-linux-gnu-g++", *cross("Linux", processor))
    assert run(emulator, folder / "core_check", *WORST_CASES) == bits_here()


def test_windows(tmp_path):
    """By MinGW-w64 and Wine: the same bits; threads, processors and the library work."""
    wine = tool("wine")
    environment = {"WINEPREFIX": str(tmp_path / "wine"), "WINEDEBUG": "-all", "DISPLAY": ""}
    folder = build("mingw", MINGW, *cross("Windows", "AMD64"), targets=["core_check", "halfulp"])
    run(wine, "wineboot", "--init", **environment)
    assert run(wine, folder / "core_check.exe", *WORST_CASES, **environment) == bits_here()
    program = tmp_path / "program.exe"
    sources = [
        ROOT / "tests" / "windows" / "program.cpp",
        ROOT / "core" / "array" / "thread_pool.cpp",
        ROOT / "core" / "array" / "processors.cpp",
        ROOT / "bindings" / "this_library.cpp",
    ]
    includes = [f"-I{ROOT / 'core'}", f"-I{ROOT / 'bindings'}"]
    run(tool(MINGW), "-std=c++20", "-O1", "-static", "-Wall", "-Werror", *includes, *sources, "-o", program)
    run(wine, program, folder / "libhalfulp.dll", **environment)


@pytest.mark.parametrize("target", ZIG_TARGETS)
def test_it_compiles_for(target):
    """Compiled and linked, not run."""
    if find_spec("ziglang") is None:
        pytest.skip("the package ziglang is not installed")
    FOLDER.mkdir(parents=True, exist_ok=True)
    compiler = FOLDER / f"zig-c++-{target}"
    compiler.write_text(ZIG.format(python=sys.executable, target=target))
    compiler.chmod(0o755)
    folder = build(f"zig-{target}", str(compiler), *cross(*ZIG_TARGETS[target]))
    assert any(path.stem == "core_check" for path in folder.iterdir())


def bits_here() -> str:
    """The digests of this machine."""
    return run(build_here() / "core_check", *WORST_CASES)
