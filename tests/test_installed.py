"""What is installed: versions, and modules that can be imported."""

import subprocess
import sys

import pytest

from halfulp.installed import has_module, version_of


def test_versions():
    assert version_of("numpy")
    assert version_of("no-such-package") is None


def test_modules(monkeypatch):
    assert has_module("numpy")
    assert not has_module("no_such_module")
    monkeypatch.setitem(sys.modules, "no_such_module", None)
    assert not has_module("no_such_module")


WITHOUT = "import sys; sys.modules[{package!r}] = None; "


@pytest.mark.parametrize("function", ["run", "repair", "convert", "audit"])
def test_functions_on_models_name_the_extra_with_onnx(python, function):
    program = f"import halfulp as hu\ntry: hu.{function}\nexcept ImportError as error: print(error)"
    printed = python(WITHOUT.format(package="onnx") + program)
    assert (
        printed == f"halfulp.{function}: the package onnx is not installed: pip install 'halfulp[models]'\n"
    )


def test_the_command_line_names_the_extra_that_it_needs(python):
    program = "sys.stderr = sys.stdout\nfrom halfulp.__main__ import main\n"
    program += "try: main()\nexcept SystemExit as end: print(end)"
    printed = python(WITHOUT.format(package="typer") + program)
    assert printed == "error: the package typer is not installed: pip install 'halfulp[models]'\n2\n"


def test_arrays_need_no_package_of_an_extra(python):
    blocked = "".join(WITHOUT.format(package=name) for name in ("onnx", "typer", "rich", "jinja2", "gmpy2"))
    program = "import halfulp as hu; print(hu.pow(3.0, 2), hu.op('onnx.PRelu-9')([-1.0], [0.5]))"
    assert python(blocked + program) == "9.0 [-0.5]\n"


def test_a_wrong_instruction_set_ends_no_other_module_run_by_python(tmp_path):
    # While `python -m tool` imports, sys.argv begins with -m, as it does for `python -m halfulp`.
    tool = tmp_path / "tool"
    tool.mkdir()
    (tool / "__init__.py").write_text(
        "try: import halfulp\nexcept ImportError as error: print('without halfulp:', error)"
    )
    (tool / "__main__.py").write_text("print('runs')")
    run = subprocess.run(
        [sys.executable, "-m", "tool"],
        cwd=tmp_path,
        env={"HALFULP_ISA": "sse9"},
        capture_output=True,
        text=True,
    )
    first, last = run.stdout.splitlines()
    assert first.startswith("without halfulp: HALFULP_ISA=sse9")
    assert last == "runs"
