"""docs/findings: the programs print the output on the page where that version is installed; MPFR has exact values."""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from halfulp.types import TYPES

FINDINGS = Path(__file__).parents[2] / "docs/findings"
PAGES = sorted(path.stem for path in FINDINGS.glob("*.md") if path.stem != "README")
# Packages with another name than their page.
PACKAGES = {"onnxruntime-1.20.1": "onnxruntime", "iree": "iree-base-compiler", "litert": "ai-edge-litert"}
PACKAGES |= {"mnn": "MNN", "sonnx": "numpy", "tensorflow": "tensorflow-cpu"}
PROGRAM = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"(\w+) \((\S+)\) (\*\*|prelu) (\w+) \((\S+)\): got (\S+), exact (\S+)")


def programs(name: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the common beginning of a page's programs, and the programs with their outputs."""
    found = PROGRAM.findall((FINDINGS / f"{name}.md").read_text())
    return found[0][0], found[1:]


@pytest.mark.parametrize("name", PAGES)
def test_programs_print_what_the_page_shows(name):
    text, package = (FINDINGS / f"{name}.md").read_text(), PACKAGES.get(name, name)
    measured = re.search(r"\d+\.\d+\.\d+", text.splitlines()[0])
    assert measured is not None
    try:
        installed = version(package).partition("+")[0]
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if installed != measured[0]:
        pytest.skip(f"{package} is {installed} here, the page is about {measured[0]}")
    is_about_avx512 = "AVX-512" in text
    if ("avx512f" in Path("/proc/cpuinfo").read_text()) != is_about_avx512:
        pytest.skip("the page is about other processors")
    start, others = programs(name)
    # One process for all of them: to load a runtime takes longer than to run it.
    marks = [f"\nprint('--- {number}')\n{code}" for number, (code, _) in enumerate(others)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", start + "".join(marks)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    shown = "".join(f"--- {number}\n{text}" for number, (_, text) in enumerate(others))
    # Some libraries print a line when they are loaded.
    assert done.stdout[done.stdout.index("--- 0") :] == shown


@pytest.mark.parametrize("name", PAGES)
def test_exact_values_are_mpfrs(name):
    pytest.importorskip("gmpy2")
    _, others = programs(name)
    lines = [match for _, text in others for match in LINE.finditer(text)]
    assert len(lines) > 2
    for match in lines:
        x_type, x, operator, y_type, y, _, exact = match.groups()
        right = computed(operator, x_type, value(x_type, x), value(y_type, y))
        assert same(right, value(x_type, exact)), match[0]


@pytest.mark.parametrize("name", PAGES)
def test_something_is_wrong_in_each_class(name):
    _, others = programs(name)
    for code, text in others:
        found = [match for match in LINE.finditer(text) if match[6] != match[7]]
        assert found or not LINE.search(text), code


def value(kind: str, text: str) -> Any:
    """Return a printed number as it is in its type: an int, or a float that has it exactly."""
    row = TYPES[kind]
    return float(np.array(float(text)).astype(row.dtype)) if row.kind == "float" else int(text)


# The precision and the range of exponents that MPFR needs to round once, as IEEE 754 does.
FORMATS = {"float64": (53, 1024), "float32": (24, 128), "float16": (11, 16), "bfloat16": (8, 128)}


def computed(operator: str, kind: str, x: Any, y: Any) -> Any:
    """Return a power or a product, in MPFR or in integers; nothing of halfulp is in it."""
    import gmpy2

    wide = gmpy2.context(precision=400)
    if kind not in FORMATS:
        if operator == "prelu":
            return x * y if x < 0 else x
        return int(x**y) if isinstance(y, int) else int(wide.pow(gmpy2.mpfr(x, 400), gmpy2.mpfr(y, 400)))
    precision, emax = FORMATS[kind]
    narrow = gmpy2.context(precision=precision, emax=emax, emin=4 - emax - precision, subnormalize=True)
    # Operands as they are: gmpy2 rounds results alone.
    a, b = gmpy2.mpfr(x, 400), (gmpy2.mpz(y) if isinstance(y, int) else gmpy2.mpfr(y, 400))
    if operator == "prelu":
        return float(narrow.mul(a, b)) if x < 0 else x
    return float(narrow.pow(a, b))


def same(a: Any, b: Any) -> bool:
    """Tell whether two numbers are the same, signs of zeros and NaN included."""
    if isinstance(a, int) or isinstance(b, int):
        return bool(a == b)
    return bool(np.float64(a).tobytes() == np.float64(b).tobytes() or (np.isnan(a) and np.isnan(b)))
