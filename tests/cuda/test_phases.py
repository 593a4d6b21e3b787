"""That the device's first phase is what was proved (docs/proofs.md)."""

import pytest
from tests.cuda.build import HAS_AVX2, HERE
from tests.house.builds import AVX512_MODEL, CORE, program, run, tool


@pytest.mark.parametrize("distance", [16 * 256, pytest.param(256, marks=pytest.mark.exhaustive)])
def test_the_logarithm_by_tables_is_that_of_avx512(distance):
    """The other functions of the phase are those of the proofs themselves."""
    if not HAS_AVX2:
        pytest.skip("the model needs a processor with AVX2")
    flags = ["-std=c++20", "-O2", "-ffp-contract=off", f"-I{CORE}", *AVX512_MODEL]
    source = HERE / "log2_by_table.cpp"
    compared = program("log2_by_table", [tool("g++"), *flags, source], source, CORE)
    assert int(run(compared, str(distance))) == 6 * 2**23 * 256 // distance
