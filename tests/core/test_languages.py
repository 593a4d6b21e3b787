"""The programs of docs/languages.md, in the languages that are installed."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.house.builds import ROOT, run, tool

import halfulp as hu

PAGE = (ROOT / "docs" / "languages.md").read_text()
PROGRAMS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
FOLDER = Path(hu.get_library()).parent


def rust(program: Path) -> list[str | Path]:
    compiled = program.with_suffix("")
    run(tool("rustc"), program, "-o", compiled, "-L", FOLDER, "-C", f"link-arg=-Wl,-rpath,{FOLDER}")
    return [compiled]


def javascript(program: Path) -> list[str | Path]:
    built = ROOT / "build" / "wasm"
    if not (built / "halfulp.wasm").exists():
        pytest.skip("halfulp.wasm is not made: make wasm")
    for name in ("halfulp.wasm", "halfulp.mjs"):
        (program.parent / name).write_bytes((built / name).read_bytes())
    return [tool("node"), program.rename(program.with_suffix(".mjs"))]


COMMANDS: dict[str, Callable[[Path], list[str | Path]]] = {
    "rust": rust,
    "go": lambda program: [tool("go"), "run", program],
    "julia": lambda program: [tool("julia"), program],
    "r": lambda program: [sys.executable, "-m", "halfulp", "exec", tool("Rscript"), program],
    "js": javascript,
}


@pytest.mark.parametrize("language", COMMANDS)
def test_a_program_prints_the_exact_power(language, tmp_path):
    program = tmp_path / f"program.{language}"
    program.write_text(PROGRAMS[language])
    command = COMMANDS[language](program)
    found = {"LIBRARY": hu.get_library(), "PKG_CONFIG_PATH": str(FOLDER / "share" / "pkgconfig")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | found)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == hu.pow(5.2, 9.6) == 7475359.76843132


def test_each_language_of_the_page_is_tried_or_named():
    assert PROGRAMS.keys() - COMMANDS.keys() == {"csharp"}  # its compiler is in no package of Debian's
