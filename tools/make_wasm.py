"""Compile halfulp.wasm, with halfulp.mjs beside it, by the package ziglang: Clang, and a linker for WebAssembly.

    python tools/make_wasm.py FOLDER

The file has a power of one number and powers of arrays, with SIMD128, and imports nothing (bindings/wasm/).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "bindings" / "wasm"

# As CMakeLists.txt compiles core/. wasm32-wasi has the C++ library's headers; nothing of WASI is linked.
COMPILE = [
    *(
        "c++",
        "-target",
        "wasm32-wasi",
        "-std=c++20",
        "-O3",
        "-msimd128",
        "-mbulk-memory",
        f"-I{ROOT / 'core'}",
    ),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"),
    *("-fno-exceptions", "-fno-rtti", "-fvisibility=hidden"),
]
# With the compiler's products and quotients of 128-bit integers.
LINK = [
    *("build-exe", "-target", "wasm32-freestanding", "-mcpu=generic+bulk_memory+simd128", "-OReleaseFast"),
    *("-fno-entry", "-fstrip", "--stack", "262144", "--export=__heap_base"),
]


def make(folder: Path) -> Path:
    """Write the files into a folder, and return the path of halfulp.wasm."""
    folder.mkdir(parents=True, exist_ok=True)
    compiled, module = folder / "powers.o", folder / "halfulp.wasm"
    zig = [sys.executable, "-m", "ziglang"]
    environment = os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(folder / "zig")}
    for command in (
        [*COMPILE, "-c", str(SOURCE / "powers.cpp"), "-o", str(compiled)],
        [*LINK, f"-femit-bin={module}", str(compiled)],
    ):
        subprocess.run([*zig, *command], env=environment, check=True)
    compiled.unlink()
    for script in SOURCE.glob("*.mjs"):
        shutil.copy(script, folder)
    return module


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(make(Path(sys.argv[1])))
