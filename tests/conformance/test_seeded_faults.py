"""Faults, each put into a runtime without one: ``check`` finds every one, and nothing without a fault."""

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("gmpy2")

from halfulp.conformance.check import MOST_HANGS, check_target, selection
from halfulp.conformance.document import Document, faults
from halfulp.conformance.targets import find

FAULTY = "tests.conformance.faulty"


def checked(
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    operator: str = "onnx.Pow-7",
    types: str = "float32",
    *,
    target: str = FAULTY,
    groups: tuple[str, ...] = (),
    **options: Any,
) -> Document:
    """Return the document of a runtime with a fault, and of one operator version, type and some groups of cases."""
    monkeypatch.setenv("FAULTY", fault)
    return check_target(
        find(target),
        mode="quick",
        selection=selection([operator], (), [types], groups),
        **{"time_limit": 600.0} | options,  # a busy machine is no fault
        processes=1,
    ).document


def found(document: Document, verdict: str) -> list[str]:
    """Return the ids of the cases with a verdict."""
    return [case["id"] for case in document["cases"] if case["verdict"] == verdict]


@pytest.mark.parametrize(
    ("target", "operator"),
    [("halfulp.backend", "onnx.Pow-1"), ("halfulp.backend", "onnx.PRelu-7"), (FAULTY, "onnx.Pow-7")],
)
def test_a_target_without_fault_is_clean(target, operator, monkeypatch):
    document = checked("none", monkeypatch, operator, target=target, threads=2)
    assert not faults(document)
    assert document["summary"]["exact"] > 20
    assert document["summary"]["rejected"] > 5
    assert {entry["verdict"] for entry in document["reproducibility"]} == {"same"}
    assert {case["verdict"] for case in document["cases"]} <= {"unspecified"}


def test_one_ulp_in_one_element(monkeypatch):
    document = checked("flips_one_ulp", monkeypatch, groups=("values",))
    (values,) = (case for case in document["cases"] if case["group"] == "values")
    assert values["verdict"] == "within"
    assert values["max_ulp"] == 1
    assert values["example"]["index"][-1] == 7
    assert values["confirmed"] == "MPFR"
    strict = checked("flips_one_ulp", monkeypatch, groups=("values",), ulp_limit=0)
    assert values["id"] in found(strict, "wrong")
    assert faults(strict)


@pytest.mark.parametrize(("fault", "shown"), [("drops_parity", ""), ("flushes_subnormals", "0")])
def test_wrong_elements(fault, shown, monkeypatch):
    document = checked(fault, monkeypatch, groups=("edge",))
    wrong = [case["example"]["got"]["value"] for case in document["cases"] if case["verdict"] == "wrong"]
    assert any(value.removeprefix("-").startswith(shown) for value in wrong)


def test_an_ignored_axis(monkeypatch):
    document = checked("ignores_axis", monkeypatch, "onnx.Pow-1")
    bad = [case for case in document["cases"] if case["verdict"] in ("wrong", "refused", "accepted")]
    assert bad
    assert all("axis=" in case["id"] for case in bad)
    assert any(case["verdict"] == "wrong" for case in bad)


@pytest.mark.parametrize(
    ("fault", "verdict", "message"),
    [
        ("dies", "crashed", "died of SIGSEGV"),
        pytest.param("exits", "crashed", "exited with status 0", marks=pytest.mark.exhaustive),
        ("raises", "refused", "no kernel at 0x..."),
        ("closes_everything", "crashed", ""),
        pytest.param("answers_for_check", "crashed", "", marks=pytest.mark.exhaustive),
        ("answers_for_another_case", "crashed", "its worker answered nonsense"),
        ("exhausts_memory", "crashed", "out of memory"),
    ],
)
def test_no_result(fault, verdict, message, monkeypatch):
    document = checked(fault, monkeypatch, "onnx.PRelu-9", "int32", memory=1 << 28)
    found_so = [case for case in document["cases"] if case["verdict"] == verdict]
    assert len(found_so) > 1
    assert all(message in (case["message"] or "") for case in found_so)
    (row,) = document["rows"]
    assert row["verdict"] == verdict
    assert message in (row["message"] or "")
    # The run goes on: what must be refused still is.
    assert document["summary"]["rejected"] > 5


@pytest.mark.parametrize("fault", ["forks", "prints_garbage"])
def test_what_changes_no_result(fault, monkeypatch, capfd):
    """A fork's child answers nothing: neither in its parent's place nor for the cases that follow."""
    document = checked(fault, monkeypatch, "onnx.PRelu-9", "int32")
    assert not faults(document)
    assert document["summary"]["exact"] > 10
    assert capfd.readouterr() == ("", "")


def test_a_hang(monkeypatch):
    for limit in (1.0, 10.0, 100.0):  # on a busy machine another case may need more time
        document = checked("hangs", monkeypatch, "onnx.PRelu-9", "int32", time_limit=limit)
        hung = found(document, "hung")
        assert hung
        if all("/broadcast/" in id for id in hung):
            break
    assert all("/broadcast/" in id for id in hung)
    assert document["summary"]["exact"] > 10


def test_a_target_that_hangs_on_everything(monkeypatch):
    """A few time limits, not one for each case; and what was not run says so."""
    document = checked("hangs_always", monkeypatch, "onnx.PRelu-9", "int32", time_limit=0.1)
    assert document["summary"]["hung"] == document["summary"]["cases"] > 20
    messages = Counter(case["message"] for case in document["cases"])
    assert messages.pop("no answer in 0.1 s") == MOST_HANGS
    assert list(messages) == [f"not run: {MOST_HANGS} cases one after another hung"]
    (row,) = document["rows"]
    assert row["message"] == "no answer in 0.1 s"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("wrong_shape", "the output is float32["),
        ("wrong_type", "the output is float64["),
        ("fewer_outputs", "0 outputs instead of 1"),
        ("masked", "the output is not an array of numbers: "),
    ],
)
def test_a_wrong_kind_of_output(fault, message, monkeypatch):
    document = checked(fault, monkeypatch, "onnx.PRelu-7")
    assert document["summary"]["exact"] == 0
    wrong = [case for case in document["cases"] if case["verdict"] == "wrong"]
    assert len(wrong) > 20
    assert all((case["message"] or "").startswith(message) for case in wrong)


def test_accepted_invalid_models(monkeypatch):
    document = checked("accepts_invalid", monkeypatch, groups=("invalid",))
    assert document["summary"]["rejected"] == 0
    accepted = [case for case in document["cases"] if case["verdict"] == "accepted"]
    assert len(accepted) > 5
    assert all(case["clause"] in (case["message"] or "") for case in accepted if case["clause"])


@pytest.mark.parametrize(
    ("fault", "aspects"),
    [("depends_on_position", {"position", "length"}), ("depends_on_threads", {"threads"})],
)
def test_bits_that_depend_on_surroundings(fault, aspects, monkeypatch):
    document = checked(fault, monkeypatch, groups=("values", "reproducibility"), threads=2)
    differing = {entry["aspect"] for entry in document["reproducibility"] if entry["verdict"] == "differs"}
    assert differing == aspects
    assert document["summary"]["wrong"] == 0
    assert faults(document) == len(aspects)
    for entry in document["reproducibility"]:
        if entry["verdict"] == "differs":
            assert entry["example"]["first"] != entry["example"]["again"]


def test_faults_do_not_change_from_run_to_run(monkeypatch):
    """Two runs' documents are the same except for the description of the run."""

    def without_run(fault: str) -> dict[str, Any]:
        return dict(checked(fault, monkeypatch, "onnx.PRelu-9", "int32")) | {"run": None}

    assert without_run("raises") == without_run("raises")
