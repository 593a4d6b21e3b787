"""What users see of the package: the names of hu, and the modules that the docs import."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import halfulp as hu


def test_a_shell_completes_what_is_public():
    assert dir(hu) == sorted(hu.__all__)
    assert {"run", "convert", "check", "audit"} < set(dir(hu))
    assert all(hasattr(hu, name) for name in dir(hu))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("powr", "power"),
        ("PRelu", "prelu"),
        ("float_pow", "float_power"),
        ("leaky_relu", "prelu"),
        ("nothing", None),
    ],
)
def test_a_guess_is_answered_with_the_name(name, meant):
    with pytest.raises(AttributeError) as caught:
        getattr(hu, name)
    said = str(caught.value)
    assert said.endswith(f"Did you mean: {meant!r}?" if meant else f"has no attribute {name!r}")


def test_what_was_asked_for_once_is_kept():
    code = (
        "import halfulp as hu; assert 'convert' not in vars(hu);"
        "convert = hu.convert; version = hu.__version__;"
        "assert vars(hu)['convert'] is convert and vars(hu)['__version__'] is version"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_modules_say_what_is_public():
    """Those that the page on support names have an ``__all__``, and their names exist."""
    page = (Path(__file__).parents[2] / "docs" / "support.md").read_text()
    table = page.partition("**The public surface**")[2].partition("**Versions**")[0]
    names = re.findall(r"^\| `(halfulp\.[\w.]+)` \|", table, re.MULTILINE)
    assert len(names) >= 10
    for name in names:
        try:
            module = import_module(name)
        except ImportError as error:
            if error.name is None or error.name.partition(".")[0] == "halfulp":
                raise
            continue  # an integration whose library is not installed
        assert module.__all__, name
        assert all(hasattr(module, public) for public in module.__all__), name
        assert dir(module) == sorted(module.__all__) or ".integrations" not in name, name


def test_functions_name_themselves():
    assert (repr(hu.pow), repr(hu.prelu)) == ("<halfulp.pow>", "<halfulp.prelu>")


def test_no_module_hides_a_function():
    """A module of the same name would take its place as soon as something imports it."""
    code = (
        "import pkgutil, importlib, halfulp;"
        "[importlib.import_module(f'halfulp.{m.name}') for m in pkgutil.iter_modules(halfulp.__path__)"
        " if m.name not in ('__main__', 'libhalfulp', 'libhalfulp_m')];"
        "names = 'audit check convert float_power op ops pow power prelu repair run'.split();"
        "hidden = [name for name in names if not callable(getattr(halfulp, name))];"
        "assert not hidden, hidden"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
