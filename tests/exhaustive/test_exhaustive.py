"""float16 ** float16 and bfloat16 ** bfloat16: all 2^32 pairs each, against an independent computation.

`make exhaustive` runs this: about two minutes a type on one core, by the processor's best instruction set, and
where that is AVX-512 by AVX2 too. The core's results are compared, bit for bit, with those of pow16.cpp, and a
random sample of them with MPFR.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.exhaustive.pow16 import TYPE_NAMES, Counts, row

import halfulp as hu
from halfulp import reference
from halfulp.operators import instruction_set
from halfulp.types import TYPES

BLOCK = 64  # bases in a call of the core
BLOCKS = range(0, 1 << 16, BLOCK)
SAMPLE = 2048  # pairs of each block that MPFR looks at

Wrong = tuple[int, int, int]  # the bits of base, exponent and the core's result


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TYPE_NAMES)
def test_every_pair(name):
    dtype = TYPES[name].dtype
    exponents = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    total, wrong, start = [], [], time.monotonic()
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for done, counts, differing in pool.map(lambda first: check_block(dtype, exponents, first), BLOCKS):
            total.append(counts)
            wrong += differing
            assert len(wrong) < 1000, describe(name, wrong)
            if done % (1 << 13) == 0:
                print(
                    f"\n{name}: {done} of 65536 bases, {time.monotonic() - start:.0f} s", end="", flush=True
                )
    finally:
        pool.shutdown(cancel_futures=True)
    print(
        f"\n{name}: 2^32 pairs, {len(wrong)} wrong; {sum(c.computed for c in total)} finite, "
        f"{sum(c.ties for c in total)} ties, {sum(c.undecided for c in total)} decided by MPFR, "
        f"nearest to a midpoint 2^{np.log2(min(c.nearest for c in total)):.1f} units in the last place"
    )
    assert not wrong, describe(name, wrong)


@pytest.mark.exhaustive
def test_every_pair_by_avx2():
    if instruction_set() != "avx512":
        pytest.skip("test_every_pair takes the only instruction set with a phase in single floats")
    test = f"{__file__}::{test_every_pair.__name__}"
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-m", "exhaustive", test]
    subprocess.run(command, env={**os.environ, "HALFULP_ISA": "avx2"}, check=True)


def check_block(dtype: np.dtype, exponents: np.ndarray, first: int) -> tuple[int, Counts, list[Wrong]]:
    """Check the bases from first on; return where the next block begins, the counts, and what is wrong."""
    codes = np.arange(first, first + BLOCK, dtype=np.uint16)
    results = hu.pow(codes.view(dtype)[:, None], exponents).view(np.uint16)
    counts = Counts.zero()
    wrong = []
    for base, got in zip(codes.tolist(), results, strict=True):
        expected = row(dtype.name, base, counts).results
        wrong += [(base, int(y), int(got[y])) for y in np.flatnonzero(got != expected)]
    rng = np.random.default_rng(first)
    x, y = rng.integers(0, BLOCK, SAMPLE), rng.integers(0, 1 << 16, SAMPLE)
    sampled = reference.pow(codes[x].view(dtype), exponents[y]).view(np.uint16)
    differing = np.flatnonzero(sampled != results[x, y])
    wrong += [(first + int(x[i]), int(y[i]), int(results[x[i], y[i]])) for i in differing]
    return first + BLOCK, counts, wrong


def describe(name: str, wrong: list[Wrong]) -> str:
    """The first few wrong results, by bits, with the exact ones."""
    dtype = TYPES[name].dtype
    lines = [f"{len(wrong)} wrong results of {name}"]
    for x, y, got in wrong[:20]:
        operands = (np.array([code], np.uint16).view(dtype) for code in (x, y))
        exact = int(reference.pow(*operands).view(np.uint16)[0])
        lines.append(f"  {x:#06x} ** {y:#06x}: {got:#06x}, exactly {exact:#06x}")
    return "\n".join(lines)


def test_a_wrong_bit_is_seen(monkeypatch):
    """The check of a block of bases finds one result of four million that is wrong."""
    dtype = TYPES["float16"].dtype
    exponents = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    correct = hu.pow

    def one_wrong(x, y):
        result = correct(x, y)
        result.view(np.uint16)[3, 0x4000] ^= 1
        return result

    monkeypatch.setattr(hu, "pow", one_wrong)
    first = 0x4200
    *_, wrong = check_block(dtype, exponents, first)
    exact = int(np.float16(float(np.uint16(first + 3).view(np.float16)) ** 2).view(np.uint16))
    assert wrong == [(first + 3, 0x4000, exact ^ 1)]
    assert f"{first + 3:#06x} ** 0x4000: {exact ^ 1:#06x}, exactly {exact:#06x}" in describe("float16", wrong)
