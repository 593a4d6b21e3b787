"""Random powers of float32 have the same bits with the phase in pairs of floats and without it.

10^9 on a processor with AVX-512, otherwise 10^8 by the model of its intrinsics; ``HALFULP_PAIRS_POWERS`` is another
number. A run that is interrupted goes on where it was, as long as the code is the same.
"""

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.house.builds import AVX512_MODEL, CORE, FLAGS, FOLDER, locked, program, sources, tool

from halfulp.operators import instruction_set

SOURCE = Path(__file__).with_name("pairs.cpp")
TILES = 2048  # in a call of the program


def built() -> tuple[Path, bool]:
    """The program, and whether the processor runs it without the model."""
    native = instruction_set() == "avx512"
    flags = ["-march=x86-64-v4", "-DHALFULP_ISA=avx512"] if native else AVX512_MODEL
    exact = CORE / "kernels" / "phases" / "exact.cpp"
    command = [tool("g++"), *FLAGS, "-O2", "-w", *flags, SOURCE, exact]
    return program(f"pairs-{'native' if native else 'model'}", command, SOURCE, CORE), native


def compared(path: Path, seed: int, tiles: int) -> int:
    """Compare some tiles, and return how many powers the phase took."""
    done = subprocess.run([path, str(seed), str(tiles)], check=True, capture_output=True, text=True)
    *wrong, counts = done.stdout.splitlines()
    taken, differing = map(int, counts.split())
    assert differing == 0, wrong
    return taken


@pytest.mark.exhaustive
def test_random_powers():
    path, native = built()
    wanted = int(os.environ.get("HALFULP_PAIRS_POWERS", 10**9 if native else 10**8))
    progress, code, start = FOLDER / path.name, sources(), time.monotonic()
    with locked(progress):
        kept = progress.read_text().split() if progress.exists() else []
        seed, total = map(int, kept[1:]) if kept[:1] == [code] else (0, 0)
        while total < wanted:
            total += compared(path, seed, TILES)
            seed += 1
            progress.write_text(f"{code} {seed} {total}")
            print(f"\r{total} of {wanted} powers, {time.monotonic() - start:.0f} s", end="", flush=True)
    print()
