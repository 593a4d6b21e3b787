"""Every reader of untrusted bytes takes 10^7 inputs from a fuzzer, with the core under the sanitizers.

``HALFULP_FUZZ_INPUTS`` is another number. A run that is interrupted goes on where it was, as long as the code is the
same; the inputs that the fuzzer found worth keeping stay in build/fuzzing in any case, and so does one that failed.
"""

import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.fuzzing.readers import READERS, corpus
from tests.house.builds import PYTHON, ROOT, build, digest, libraries, outdated, package, sources

INPUTS = int(os.environ.get("HALFULP_FUZZ_INPUTS", 10**7))
AT_ONCE = 500_000
FOLDER = ROOT / "build" / "fuzzing"
LIMITS = ["-timeout=20", "-rss_limit_mb=1500", "-detect_leaks=0"]  # Python's own objects leak when it ends
SEES = """
import numpy as np, halfulp as hu
hu.pow(np.lib.stride_tricks.as_strided(np.ones(3000), (3001,), (8,)), 3.0)
"""
pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """What gives an interpreter a core with sanitizers, and Atheris's build of libFuzzer with the address sanitizer.

    There must be one address sanitizer in a process: where the core asks for GCC's, it gets that of Atheris.
    """
    if find_spec("atheris") is None:
        pytest.skip("the package atheris is not installed: pip install 'halfulp[fuzzing]'")
    asan, libstdcxx = libraries("g++", "libasan.so", "libstdc++.so.6")
    site = Path(np.__file__).parents[1]
    fuzzer = site / "asan_with_fuzzer.so"
    (mutator,) = (site / "atheris").glob("custom_mutator.*.so")
    options = ["-DHALFULP_SANITIZE=ON", "-DHALFULP_ISA=baseline"]
    folder = build("g++-sanitize-baseline", "g++", *options, targets=["core_check", "_core"])
    FOLDER.mkdir(parents=True, exist_ok=True)
    place = FOLDER / "package"
    with outdated(place, _code()) as is_outdated:
        link = FOLDER / "libraries" / Path(os.readlink(asan)).name
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(fuzzer)
        if is_outdated:  # or another fuzzer would lose it
            package(folder, place)
    # A file on a disk can take milliseconds to make; and libFuzzer ends without Python's tidying up.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="halfulp-fuzzing-", dir=memory) as scratch:
        yield os.environ | {
            "TMPDIR": scratch,
            "PYTHONPATH": os.pathsep.join(map(str, [place, site, ROOT])),
            "LD_LIBRARY_PATH": str(link.parent),
            "LD_PRELOAD": f"{fuzzer} {mutator} {libstdcxx}",
            "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16:max_allocation_size_mb=1100:symbolize=0",
            "HALFULP_NUM_THREADS": "1",
        }


def test_the_address_sanitizer_sees_the_core(environment):
    done = subprocess.run([*PYTHON, "-c", SEES], env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in done.stderr


@pytest.mark.parametrize("reader", READERS)
def test_fuzzing(reader, environment):
    folder = FOLDER / reader
    kept = folder / "corpus"
    kept.mkdir(parents=True, exist_ok=True)
    for data in corpus(reader):
        (kept / hashlib.sha1(data).hexdigest()).write_bytes(data)
    done = 0
    code = _code()
    log = folder / "inputs"
    if log.exists() and log.read_text().split()[1] == code:
        done = int(log.read_text().split()[0])
    while done < INPUTS:
        start = time.perf_counter()
        options = [f"-runs={min(AT_ONCE, INPUTS - done)}", "-max_len=4096", f"-artifact_prefix={folder}/"]
        command = [*PYTHON, "-m", "tests.fuzzing.fuzz", reader, str(kept), *LIMITS, *options]
        run = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, errors="replace"
        )
        found = re.search(r"^Done (\d+) runs", run.stderr, re.MULTILINE)
        if run.returncode != 0 or found is None:
            pytest.fail(run.stderr[-4000:], pytrace=False)
        done += int(found[1])
        log.write_text(f"{done} {code}\n")
        rate = int(found[1]) / (time.perf_counter() - start)
        print(f"{reader}: {done:,} of {INPUTS:,} inputs, {rate:,.0f} a second", flush=True)


def _code() -> str:
    return digest(sources(), ROOT / "src" / "halfulp", ROOT / "tests" / "fuzzing")
