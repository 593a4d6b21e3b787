"""Compile halfulp.wasm by the package ziglang, which is Clang and a linker, and put its scripts and a page beside it.

    python tools/make_wasm.py FOLDER

The file has a power of one number and powers of arrays, with SIMD128, and imports nothing (bindings/wasm/).
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "bindings" / "wasm"
SCRIPTS = [SOURCE / "halfulp.mjs", SOURCE / "digest.mjs"]

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
    for script in SCRIPTS:
        shutil.copy(script, folder)
    (folder / "digest.html").write_text(page(module.read_bytes()))
    return module


def page(module: bytes) -> str:
    """Return the page that computes the digest: one file, which a browser also reads from the disk."""
    scripts = "\n".join(script.read_text() for script in SCRIPTS)
    scripts = re.sub(r"^import .*\n", "", scripts, flags=re.MULTILINE).replace("export ", "")
    text = (SOURCE / "digest.html").read_text().replace("/* SCRIPTS */", scripts)
    return text.replace("WASM", base64.b64encode(module).decode(), 1)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(make(Path(sys.argv[1])))
