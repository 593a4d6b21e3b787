"""The tests on a processor without AVX-512, and on one without AVX2 and FMA, both emulated by qemu."""

import platform
import sys
from pathlib import Path

import pytest
from tests.house.builds import ROOT, run, tool

# The first is a processor of x86-64-v3; without features that qemu lacks, of which it would warn.
PROCESSORS = {"avx2": "Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid", "scalar": "Nehalem"}
FOLDERS = {"avx2": ["core", "oracle", "integrations", "conformance"], "scalar": ["core", "oracle"]}
# Each in a process of its own: in long ones qemu has crashed.
FILES = [
    (instruction_set, str(path.relative_to(ROOT)))
    for instruction_set, folders in FOLDERS.items()
    for folder in folders
    for path in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
]
OPTIONS = ["-q", "-p", "no:cacheprovider", "-m", "not exhaustive and not not_emulated"]
PROGRAM = """
import sys
import pytest
from halfulp import _core

assert _core.instruction_set() == sys.argv[1], _core.instruction_set()
code = pytest.main(sys.argv[2:])
sys.exit(0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code)
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(("instruction_set", "file"), FILES)
def test_what_passes_here_passes_there(instruction_set, file, tmp_path, monkeypatch):
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("emulates another x86-64 on Linux")
    monkeypatch.delenv("HALFULP_ISA", raising=False)
    python = emulated(PROCESSORS[instruction_set], tmp_path)
    print(run(python, "-c", PROGRAM, instruction_set, *OPTIONS, file))


def emulated(processor: str, folder: Path) -> Path:
    """Make an interpreter like this one on another processor, in a folder like that of a virtual environment.

    It is a script. As it calls itself sys.executable, the processes that tests start are emulated, too.
    """
    python = folder / "bin" / "python"
    python.parent.mkdir()
    real = Path(sys.executable).resolve()
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    qemu = f"{tool('qemu-x86_64')} -cpu {processor} -0 {python}"
    python.write_text(f'#!/bin/sh\nexec {qemu} {real} "$@"\n')
    python.chmod(0o755)
    return python
