"""Compile bindings/cuda/kernels.cu to PTX, the kernels for CUDA devices, by NVIDIA's NVRTC.

The same compiler makes the same bytes everywhere. A digest of them is kept beside the source: a test compares it, and
``--update`` writes it. The compiler is the package ``nvidia-cuda-nvrtc==13.5.37``; it needs neither GPU nor driver.
Other versions are refused, since 12.9.86 and 13.0.88 miscompile products of fixed-point numbers when they inline them.

    python tools/make_ptx.py build/kernels.ptx
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "bindings" / "cuda" / "kernels.cu"
DIGEST = SOURCE.with_name("kernels.ptx.sha256")
COMPILER, VERSION = "nvidia-cuda-nvrtc", "13.5.37"

# Every operation rounds as written: no contraction, no flush to zero, IEEE division and roots.
OPTIONS = [
    "--std=c++20",
    "--gpu-architecture=compute_75",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--device-int128",
    "--device-as-default-execution-space",
    "--define-macro=HALFULP_ISA=device",
    f"--include-path={ROOT / 'bindings' / 'cuda' / 'nvrtc'}",
    f"--include-path={ROOT / 'core'}",
    "--pre-include=prelude.h",
]
# NVRTC declares its own, newest version of the PTX language. All instructions exist in this version, which drivers of
# CUDA 12.0 support. A test assembles them with that version's assembler, if it is installed.
PTX_VERSION = "8.0"


class CompilationError(Exception):
    """The compiler is missing, or it rejects the source."""


def nvrtc() -> ctypes.CDLL:
    """Return the compiler's library.

    Raises:
        CompilationError: the package is not installed, or has another version.
    """
    needed = f"{COMPILER}=={VERSION}"
    try:
        package = distribution(COMPILER)
    except PackageNotFoundError:
        raise CompilationError(f"{needed} is not installed") from None
    if package.version != VERSION:
        raise CompilationError(f"expected {needed}, got version {package.version}")
    files = [Path(str(package.locate_file(file))) for file in package.files or []]
    # The compiler loads its builtins by name, and finds them if they are loaded already.
    for file in files:
        if re.match(r"(lib)?nvrtc-builtins", file.name):
            ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
    library = next(file for file in files if re.match(r"libnvrtc\.so|nvrtc64_\d+_0\.dll", file.name))
    return ctypes.CDLL(str(library))


def compiled() -> str:
    """Return the kernels' PTX.

    Raises:
        CompilationError: the compiler is missing or has another version, or it rejects the source.
    """
    library = nvrtc()
    program = ctypes.c_void_p()
    source = SOURCE.read_bytes()
    if library.nvrtcCreateProgram(ctypes.byref(program), source, SOURCE.name.encode(), 0, None, None) != 0:
        raise CompilationError("the compiler failed to start")
    include = f"--include-path={SOURCE.parent}"
    options = [option.encode() for option in [*OPTIONS, include]]
    failed = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = _text(library, program, "ProgramLog")
    if failed:
        raise CompilationError(log)
    if log:
        print(log, file=sys.stderr)
    ptx = _text(library, program, "PTX")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    ptx, count = re.subn(r"(?m)^\.version \d+\.\d+$", f".version {PTX_VERSION}", ptx)
    if count != 1:
        raise CompilationError("the compiler's PTX does not declare a version")
    return ptx


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, kind: str) -> str:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{kind}")(program, text)
    return text.value.decode().strip() + "\n" if text.value else ""


def digest(ptx: str) -> str:
    return hashlib.sha256(ptx.encode()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", type=Path, help="where to put the PTX")
    parser.add_argument("--update", action="store_true", help=f"write its digest to {DIGEST.name}, too")
    arguments = parser.parse_args()
    try:
        ptx = compiled()
    except CompilationError as error:
        print(f"make_ptx: {str(error).strip()}", file=sys.stderr)
        return 1
    if arguments.update:
        DIGEST.write_text(digest(ptx) + "\n")
    elif digest(ptx) != DIGEST.read_text().strip():
        print(
            f"make_ptx: the PTX differs from {DIGEST.relative_to(ROOT)}: run with --update", file=sys.stderr
        )
        return 1
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(ptx)
    return 0


if __name__ == "__main__":
    sys.exit(main())
