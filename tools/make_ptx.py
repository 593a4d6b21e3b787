"""Make the kernels for CUDA's devices: bindings/cuda/kernels.cu as PTX, by NVIDIA's NVRTC.

The same compiler makes the same bytes everywhere, so a digest of them is kept beside the source; a test compares it,
and ``--update`` writes it. The compiler is a package, ``nvidia-cuda-nvrtc==13.5.37`` (no GPU, and no driver,
is needed). Other versions are refused: 12.9.86 and 13.0.88 compile products of fixed-point numbers wrongly where they
make them part of their callers.

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

# Every operation rounds as it is written: no contraction, no flush to zero, IEEE division and roots.
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
# The language that NVRTC names is its own, the newest. None of the instructions is younger than this one, which drivers
# of CUDA 12.0 know; a test assembles them with that version's assembler where it is at hand.
PTX_VERSION = "8.0"


class CompilationError(Exception):
    """There is no compiler, or it refuses the source."""


def nvrtc() -> ctypes.CDLL:
    """Return the compiler's library.

    Raises:
        CompilationError: the package is not installed, or in another version.
    """
    needed = f"{COMPILER}=={VERSION}"
    try:
        package = distribution(COMPILER)
    except PackageNotFoundError:
        raise CompilationError(f"{needed} is not installed") from None
    if package.version != VERSION:
        raise CompilationError(f"{needed} is needed, and {package.version} is installed")
    files = [Path(str(package.locate_file(file))) for file in package.files or []]
    # It looks for its builtins by name, and finds them where they are loaded already.
    for file in files:
        if re.match(r"(lib)?nvrtc-builtins", file.name):
            ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
    library = next(file for file in files if re.match(r"libnvrtc\.so|nvrtc64_\d+_0\.dll", file.name))
    return ctypes.CDLL(str(library))


def compiled() -> str:
    """Return the kernels' PTX.

    Raises:
        CompilationError: there is no compiler of the right version, or it refuses the source.
    """
    library = nvrtc()
    program = ctypes.c_void_p()
    source = SOURCE.read_bytes()
    if library.nvrtcCreateProgram(ctypes.byref(program), source, SOURCE.name.encode(), 0, None, None) != 0:
        raise CompilationError("the compiler does not start")
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
        raise CompilationError("the compiler's PTX names no version")
    return ptx


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, text)
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
        print(f"make_ptx: this PTX is not what {DIGEST.relative_to(ROOT)} says", file=sys.stderr)
        return 1
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(ptx)
    return 0


if __name__ == "__main__":
    sys.exit(main())
