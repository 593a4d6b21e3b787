"""The phase in single floats computes the same in each lane of AVX2 and AVX-512.

So a bound, or an enumeration of all pairs, of one holds for the other too: the undecided lanes are the same.
"""

import platform
from pathlib import Path

import pytest
from tests.house.builds import AVX512_MODEL, CORE, FLAGS, program, run, tool

SOURCE = Path(__file__).with_name("singles.cpp")


def test_lanes_of_avx2_and_avx512_are_the_same():
    cpuinfo = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not cpuinfo.exists() or " avx2 " not in cpuinfo.read_text():
        pytest.skip("the model of AVX-512 needs a processor with AVX2")
    digests = set()
    for name, flags in (("avx2", ["-march=x86-64-v3", "-DHALFULP_ISA=avx2"]), ("avx512", AVX512_MODEL)):
        command = [tool("g++"), *FLAGS, "-O1", "-w", *flags, SOURCE]
        digests.add(run(program(f"singles-{name}", command, SOURCE, CORE)))
    assert len(digests) == 1
