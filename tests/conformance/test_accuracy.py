"""The accuracy of runtimes: known errors are found, and an exact runtime has none."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app
from halfulp.conformance.accuracy import TypeAccuracy, _all_pairs, measure, table
from halfulp.conformance.cases.values import Pairs
from halfulp.conformance.check import Examiner
from halfulp.conformance.targets import find
from halfulp.types import from_codes

pytest.importorskip("gmpy2")


def measured(target: object, name: str, rounds: int = 2, count: int = 2000) -> TypeAccuracy:
    with Examiner(find(target), time_limit=600) as examiner:
        (found,) = measure(examiner, [name], count=count, rounds=rounds)
    return found


def off(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The next number above the power, with flushed subnormals, and other bits in short arrays."""
    right = np.asarray(hu.pow(x, y))
    if x.size < 100:
        return right
    above = np.nextafter(right, right.dtype.type(2))
    return np.where(np.abs(right) < np.finfo(x.dtype).smallest_normal, 0 * right, above)


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_an_exact_runtime(name):
    found = measured("halfulp", name, count=500)
    assert list(found.ranges) == ["ordinary", "wide", "hard", "search"]
    assert {(each.misrounded, each.special, each.max_ulp) for each in found.ranges.values()} == {(0, 0, 0)}
    assert (found.special_wrong, found.differs) == (0, [])
    assert found.special_values > 100


def short(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x[:1]


def test_an_output_of_another_shape():
    assert measured(short, "float32").message == "wrong: the output is float32[1]"


def test_a_known_error():
    found = measured(off, "float32")
    ordinary = found.ranges["ordinary"]
    assert ordinary.misrounded > 0.9 * ordinary.elements
    assert 1 < ordinary.max_ulp <= 1.5
    assert "position" in found.differs
    assert found.special_wrong > 0
    worst = ordinary.worst
    assert worst is not None
    x, y, right = (from_codes([int(worst[key].split()[1], 16)], "float32") for key in ("x", "y", "expected"))
    assert hu.pow(x, y) == right


def test_the_search_finds_more_than_samples():
    found = measured("numpy", "float32", rounds=8)
    assert found.ranges["search"].max_ulp > found.ranges["ordinary"].max_ulp > 0.5


def test_the_command(tmp_path):
    arguments = ["accuracy", "numpy", "--types", "fp16,int8"]
    assert "accuracy is measured of floating types, not of int8" in CliRunner().invoke(app, arguments).stderr
    assert CliRunner().invoke(app, ["accuracy"]).exit_code == 2
    files = [f"--json={tmp_path}/a.json", "--count=100", "--rounds=1", "--types=fp16"]
    result = CliRunner().invoke(app, ["accuracy", "numpy", *files])
    assert result.exit_code == 0, result.output
    (document,) = json.loads((tmp_path / "a.json").read_text())
    assert document["schema"] == "halfulp.accuracy/1"
    (_, row) = table([document])
    assert row[:2] == [f"numpy {np.__version__}", "float16"]


def test_ctrl_c_ends_all_pairs(tmp_path, monkeypatch):
    """Ctrl-C ends them after the second part, and the documents have the results until then."""
    monkeypatch.setattr("halfulp.conformance.accuracy._EVERY", 64)
    parts = 0

    def some(examiner: Examiner, name: str, pairs: Pairs) -> np.ndarray:
        nonlocal parts
        parts += pairs.x.size == 16 * 64
        if parts == 3:
            raise KeyboardInterrupt
        return np.asarray(hu.pow(*pairs))

    monkeypatch.setattr("halfulp.conformance.accuracy._run", some)
    file = tmp_path / "a.json"
    options = ["--types=fp16", "--count=64", "--rounds=1", "--exhaustive", f"--json={file}"]
    result = CliRunner().invoke(app, ["accuracy", "numpy", *options])
    assert result.exit_code == 130, result.output
    assert "interrupted" in result.stderr
    (document,) = json.loads(file.read_text())
    assert document["types"][0]["ranges"]["all pairs"]["elements"] == 2 * 16 * 64
    assert "misrounded, all pairs" in result.stdout


@pytest.mark.parametrize(("name", "quiet"), [("float16", 0x200), ("bfloat16", 0x40)])
def test_all_pairs_have_no_signalling_nan(name, quiet, monkeypatch):
    """IEEE 754 lets such a NaN give a NaN as the power of 0, too."""
    tried: list[Pairs] = []

    def some(examiner: Examiner, name: str, pairs: Pairs) -> np.ndarray:
        tried.append(pairs)
        raise KeyboardInterrupt

    monkeypatch.setattr("halfulp.conformance.accuracy._run", some)
    _all_pairs(Examiner(find("numpy")), name, lambda line: None)
    exponents = tried[0].y[: 1 << 16]
    bits = exponents.view(np.uint16)[np.isnan(exponents)]
    assert bits.size > 100
    assert (bits & quiet == quiet).all()
