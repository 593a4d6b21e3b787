"""Compile bindings/triton/powers.cpp, the powers of Triton's kernels, to bitcode by the package ziglang (Clang 19).

    python tools/make_bitcode.py build/powers.bc [CLANG'S OPTIONS]

A later LLVM reads the bitcode of an earlier one, so the compiler is older than that of every Triton since 3.2. The
assembler of CUDA, and LLVM where a kernel allows it, fuse a product and a sum that only say "multiply" and "add". So
every floating operation becomes an instruction of PTX that names its rounding, which nobody fuses or splits.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "bindings" / "triton" / "powers.cpp"
CLANG = [sys.executable, "-m", "ziglang", "clang", "--target=nvptx64-nvidia-cuda"]

# As kernels.cu is compiled. __FP_FAST_FMA: core/ asks by it whether a fused operation is fast.
COMPILE = [
    *("-std=c++20", "-O2", "-nostdinc++", "-fno-exceptions", "-fno-vectorize", "-fno-slp-vectorize"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-D__FP_FAST_FMA"),
    *("-Xclang", "-target-feature", "-Xclang", "+ptx63", "-DHALFULP_ISA=device"),
    *("-include", str(SOURCE.with_name("prelude.h"))),
    *(f"-I{ROOT / folder}" for folder in ("bindings/cuda/nvrtc", "core", "bindings/cuda")),
]
LETTERS = {"float": ("f", "f32"), "double": ("d", "f64")}
_VALUE = r"(?:float|double) (?:noundef )?([^,()]+)"
OPERATION = re.compile(r"= f(add|sub|mul|div) (float|double) ([^,\n]+), ([^,\n]+)$", re.MULTILINE)
FUNCTION = re.compile(
    rf"= (?:tail )?call (?:noundef )?(float|double) @llvm\.(fma|sqrt)\.f\d+\({_VALUE}(?:, {_VALUE}, {_VALUE})?\).*"
)
PLAIN = re.compile(r"= f(?:add|sub|mul|div|rem) .*|call .*@llvm\.(?:fma|fmuladd|sqrt)\..*")


def in_assembler(kind: str, operation: str, *operands: str) -> str:
    letter, suffix = LETTERS[kind]
    places = ", ".join(f"${i}" for i in range(len(operands) + 1))
    constraints = ",".join([f"={letter}", *[letter] * len(operands)])
    values = ", ".join(f"{kind} {operand}" for operand in operands)
    return f'= call {kind} asm "{operation}.rn.{suffix} {places};", "{constraints}"({values})'


def named(ir: str) -> str:
    """Return LLVM's text with every floating operation as an instruction that names its rounding."""
    ir = OPERATION.sub(lambda m: in_assembler(m[2], m[1], m[3], m[4]), ir)
    ir = FUNCTION.sub(lambda m: in_assembler(m[1], m[2], *[o for o in m.groups()[2:] if o]), ir)
    if remaining := PLAIN.findall(ir):
        raise ValueError(f"an operation without a rounding: {remaining[0]}")
    # The module into which this one is linked says for which processor it is; and no path of this machine stays.
    return re.sub(r'"target-(cpu|features)"="[^"]*"|(?m:^(; ModuleID|source_filename).*)', "", ir)


def clang(*arguments: str | Path, text: str = "") -> str:
    command = [*CLANG, *map(str, arguments)]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def make(bitcode: Path, *options: str) -> Path:
    """Write the bitcode, and return its path."""
    bitcode.parent.mkdir(parents=True, exist_ok=True)
    ir = named(clang(*COMPILE, *options, "-S", "-emit-llvm", SOURCE, "-o", "-"))
    clang("-c", "-emit-llvm", "-O0", "-xir", "-", "-o", bitcode, text=ir)
    return bitcode


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(make(Path(sys.argv[1]), *sys.argv[2:]))
