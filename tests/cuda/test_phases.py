"""That the device's first phase is what was proved (docs/proofs.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cuda.build import HERE, has_avx2
from tests.house.builds import AVX512_MODEL, ROOT, run, tool


def test_the_logarithm_by_tables_is_that_of_avx512(tmp_path: Path) -> None:
    """The other functions of the phase are those of the proofs themselves."""
    if not has_avx2():
        pytest.skip("the model needs a processor with AVX2")
    program = tmp_path / "log2_by_table"
    flags = ["-std=c++20", "-O2", "-ffp-contract=off", f"-I{ROOT / 'core'}", *AVX512_MODEL]
    run(tool("g++"), *flags, "-o", program, HERE / "log2_by_table.cpp")
    assert int(run(program)) == 6 * 2**23
