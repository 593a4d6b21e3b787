"""A whole check: its report, its selection, and the places where it runs."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest

import halfulp as hu
from halfulp.conformance.case import Case
from halfulp.conformance.check import CheckReport, Examiner, Progress, check_target, processors, selection
from halfulp.conformance.judge import VERDICTS
from halfulp.conformance.targets import find
from halfulp.errors import HalfulpError


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each check a second process, which would ask what more threads do."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def small(target: str = "onnx-reference", **arguments: object) -> CheckReport:
    """Check a target on little."""
    little = {"operators": ["onnx.PRelu-7"], "types": ["float32"], "processes": 1}
    return hu.check(target, **(little | arguments))


def test_the_face():
    report = hu.check("onnx-reference", mode="quick", operators="onnx.PRelu-7", types="float32", processes=1)
    assert not report.ok
    document = report.document
    assert document["target"]["name"] == "onnx-reference"
    assert set(document["target"]["versions"]) == {"ml_dtypes", "numpy", "onnx"}
    selected = {"operators": ["onnx.PRelu-7"], "versions": [], "types": ["float32"]}
    assert document["run"]["selection"] == selected
    assert json.loads(report.json()) == document
    assert repr(report).startswith("<CheckReport of onnx-reference: ")
    assert len(repr(report)) < 200
    assert "onnx-reference" in str(report)
    assert "PRelu-7" in str(report)


def test_the_document_adds_up():
    document = small().document
    summary = document["summary"]
    assert sum(summary[verdict] for verdict in VERDICTS) == summary["cases"]
    assert len(document["cases"]) == summary["cases"] - summary["exact"] - summary["rejected"]
    (row,) = document["rows"]
    assert row["verdict"] == "wrong"
    assert row["misrounded"] == sum(row["histogram"].values()) - row["histogram"]["0"]
    assert sum(row["histogram"].values()) == row["elements"]
    assert row["worst"] in {case["id"] for case in document["cases"]}
    (special,) = document["specials"]
    cells = {(cell["x"], cell["y"]): cell for cell in special["grid"]}
    assert len(cells) == len(special["grid"])
    assert cells["0", "inf"] == {"x": "0", "y": "inf", "expected": "0", "got": "nan", "verdict": "wrong"}
    for case in document["cases"]:
        assert case["confirmed"] == ("MPFR" if case["example"] else None)


def test_nothing_depends_on_how_many_processes():
    one, three = (small(types=[], processes=count).document for count in (1, 3))
    assert dict(one) | {"run": None} == dict(three) | {"run": None}


def test_progress():
    told: list[Progress] = []
    report = small(types=[], progress=told.append)
    assert [state.done for state in told] == [1, 2, 3]
    assert {state.total for state in told} == {3}
    assert told[-1].cases == report.document["summary"]["cases"]
    assert told[-1].faults > 0


def test_the_processes_end_where_progress_fails(monkeypatch):
    closed: list[Examiner] = []
    close = Examiner.close
    monkeypatch.setattr(Examiner, "close", lambda examiner: (closed.append(examiner), close(examiner))[1])

    def fail(found: Progress) -> None:
        raise RuntimeError("the terminal is gone")

    with pytest.raises(RuntimeError, match="gone") as caught:  # whose traceback keeps the generator alive
        small(progress=fail)
    assert caught.value.__traceback__ is not None
    assert closed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"operators": ["Pwo"]}, "no operator Pwo"),
        ({"versions": ["99"]}, "no version 99"),
        ({"types": ["float33"]}, "no element type float33"),
        ({"operators": ["openvino.Power-1"]}, "nothing of this selection is for"),
        ({"mode": "fast"}, "no such mode"),
        ({"processes": 0}, "processes must be an integer >= 1"),
        ({"time_limit": 0}, "time_limit must be a number > 0"),
        ({"time_limit": float("inf")}, "time_limit must be at most a day"),
        ({"ulp_limit": float("nan")}, "ulp_limit must be a number >= 0"),
        ({"allow": "missing.txt"}, "missing.txt: can't be read"),
    ],
)
def test_bad_arguments(arguments, says):
    with pytest.raises(HalfulpError) as caught:
        small(**arguments)
    assert says in str(caught.value)


@pytest.mark.parametrize("target", [3, None, Path("numpy"), ["numpy"]])
def test_a_target_is_a_string(target):
    with pytest.raises(HalfulpError, match="a target is named by a string") as caught:
        hu.check(target)
    assert "onnxruntime" in str(caught.value)


def test_a_selection_takes_what_names_things():
    both = selection("Pow", [7, 15], [np.float32, "f4", np.dtype("int8")])
    assert both == {"operators": ["Pow"], "versions": ["15", "7"], "types": ["float32", "int8"]}
    assert selection((), 15, np.float16)["types"] == ["float16"]


def test_how_many_processors(monkeypatch):
    """As many as the core takes threads, at most OMP_NUM_THREADS."""
    monkeypatch.setattr("halfulp.conformance.check.thread_count", lambda: 5)
    for text, count in (("", 5), ("many", 5), ("0", 5), ("3", 3), ("1,4", 1), ("1000", 5)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert processors() == count


def test_one_thread_says_nothing_about_threads():
    document = check_target(
        find("onnx-reference"),
        mode="quick",
        selection=selection(["onnx.PRelu-7"], (), ["float32"]),
        threads=1,
        time_limit=600,
        processes=1,
    ).document
    (entry,) = (entry for entry in document["reproducibility"] if entry["aspect"] == "threads")
    assert entry["verdict"] == "not tested"


def test_an_examination_can_be_ended_from_another_thread(monkeypatch):
    monkeypatch.setenv("FAULTY", "hangs")
    one = np.array([3], np.int32)
    case = Case("onnx.PRelu-9/int32,int32/values/0", "onnx.PRelu-9", "values", (one, one))
    examiner = Examiner(find("tests.conformance.faulty"))
    assert examiner.versions is not None
    threading.Timer(0.3, examiner.close).start()
    with pytest.raises(HalfulpError, match="was ended"):
        examiner.examine([case])


def test_the_runtime_is_not_loaded_here(python):
    code = (
        "import sys, halfulp as hu; hu.check('onnx-reference', operators='onnx.PRelu-7', types='float16', processes=1);"
        "print('onnx.reference' in sys.modules)"
    )
    assert python(code) == "False\n"
