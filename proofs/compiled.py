"""C++ programs that include the core's headers, compiled with the core's options."""

from __future__ import annotations

import tempfile
from pathlib import Path

from proofs.step import Unproved, once, run_program

FOLDER = Path(__file__).parent / "programs"
BUILT = tempfile.TemporaryDirectory(prefix="halfulp-proofs-")  # removed when Python ends
OPTIONS = ["-std=c++20", "-O2", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-w"]

# The options of each instruction set. AVX-512 uses the model in plain C++, which runs on every machine with AVX2.
SETS = {
    "scalar": ["-march=x86-64", "-DHALFULP_ISA=scalar"],
    "avx2": ["-march=x86-64-v3", "-DHALFULP_ISA=avx2"],
    "avx512": [
        "-march=x86-64-v3",
        "-Wno-psabi",
        "-include",
        str(FOLDER.parents[1] / "tests" / "avx512_model" / "avx512.h"),
        "-DHALFULP_ISA=avx512",
    ],
}


@once
def program(source: str, core: Path, instruction_set: str = "avx2", *options: str) -> Path:
    """Compile proofs/programs/<source> with this copy of core/, and return the program's path."""
    target = Path(tempfile.mkdtemp(dir=BUILT.name)) / Path(source).stem
    command = ["g++", *OPTIONS, *SETS[instruction_set], *options, f"-I{core}", str(FOLDER / source)]
    done = run_program([*command, "-o", str(target)])
    if done.returncode != 0:
        told = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
        raise Unproved(f"{source} does not compile: {told}")
    return target


def output(command: Path, *arguments: str, stdin: str = "") -> str:
    """Run a program and return its output."""
    done = run_program([str(command), *arguments], stdin=stdin)
    if done.returncode != 0:
        raise Unproved((done.stderr or done.stdout).strip().splitlines()[-1])
    return done.stdout
