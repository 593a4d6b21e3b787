"""Lists of findings that are known."""

from pathlib import Path

import pytest
from tests.conformance.report.documents import document

from halfulp.conformance.document import Entry, Result, load_allowed, stale
from halfulp.errors import HalfulpError

TEXT = """
# known in 1.31
onnx.Pow-*/hard/*  wrong,crashed  x^3 by multiplication

[onnxruntime]
onnx.Pow-15/bfloat16,*  refused  no bfloat16 kernels
[ openvino ]
*/reproducibility/* differs folded with other code
"""


def loaded(tmp_path: Path, text: str) -> list[Entry]:
    """Return what a file of this text says."""
    path = tmp_path / "known.txt"
    path.write_text(text)
    return load_allowed(path)


def result(id: str, verdict: str) -> Result:
    """Return a result with no more than its id and its verdict."""
    return Result({"id": id, "verdict": verdict}, {})


def reason(allowed: list[Entry], target: str, case: str, verdict: str) -> str | None:
    """Return the reason of the first entry that allows a finding."""
    fault = {"id": case, "verdict": verdict}
    return next((entry.reason for entry in allowed if entry.allows(target, fault)), None)


def test_which_findings_are_allowed(tmp_path):
    allowed = loaded(tmp_path, TEXT)
    hard, bfloat = "onnx.Pow-7/float32,float32/hard/0", "onnx.Pow-15/bfloat16,float32/values/0"
    assert reason(allowed, "numpy", hard, "wrong") == "x^3 by multiplication"
    assert reason(allowed, "torch", hard, "crashed") is not None
    assert reason(allowed, "numpy", hard, "hung") is None
    assert reason(allowed, "onnxruntime", bfloat, "refused") == "no bfloat16 kernels"
    assert reason(allowed, "numpy", bfloat, "refused") is None
    length = "onnx.Pow-7/float32,float32/reproducibility/length-5"
    differs = {"aspect": "length", "verdict": "differs", "example": {"case": length}}
    assert [entry.allows("openvino", differs) for entry in allowed] == [False, False, True]


@pytest.mark.parametrize(
    ("word", "differently", "is_allowed"),
    [
        ("wrong", {}, True),
        ("wrong<=16", {}, True),
        ("wrong<=15", {}, False),
        ("wrong<=16", {"special": 1}, False),
        ("wrong<=16", {"max_ulp": None}, False),  # an output of another type
        ("wrong<=edges", {}, True),
        ("wrong<=subnormals", {}, False),
        ("wrong<=ordinary", {"grade": "ordinary", "special": 3}, True),
        ("refused,wrong<=subnormals,wrong<=16", {}, True),
        ("wrong<=16", {"verdict": "refused"}, False),
    ],
)
def test_up_to_a_bound(word, differently, is_allowed, tmp_path):
    allowed = loaded(tmp_path, f"onnx.Pow-* {word} known")
    case = document("right")["cases"][0] | {"id": "onnx.Pow-7/float32,float32/hard/0", "verdict": "wrong"}
    case |= {"grade": "edges", "special": 0, "max_ulp": 16} | differently
    assert [entry.reason for entry in allowed if entry.allows("numpy", case)] == ["known"] * is_allowed
    # An entry is stale where nothing is wrong, not where a bound is exceeded.
    assert bool(stale(allowed, "numpy", [result(case["id"], case["verdict"])])) == (
        case["verdict"] != "wrong"
    )


def test_stale_entries(tmp_path):
    allowed = loaded(tmp_path, TEXT)
    hard, bfloat = "onnx.Pow-7/float32,float32/hard/0", "onnx.Pow-15/bfloat16,float32/values/0"
    both = [result(hard, "exact"), result(bfloat, "exact")]
    assert [entry.line for entry in stale(allowed, "onnxruntime", both)] == [3, 6]
    (entry,) = stale(allowed, "onnxruntime", [result(hard, "wrong"), result(bfloat, "exact")])
    assert str(entry) == "[onnxruntime] onnx.Pow-15/bfloat16,* refused no bfloat16 kernels"
    # Bits that are not reproducible are a finding of a case that is exact.
    folded = result("onnx.Pow-7/float32,float32/reproducibility/length-5", "exact")
    assert [entry.line for entry in stale(allowed, "openvino", [folded])] == [8]
    assert not stale(allowed, "openvino", [folded._replace(same=False)])
    # Nothing is known about cases that were not run, and about other targets.
    assert not stale(allowed, "onnxruntime", [result(hard, "wrong")])
    assert not stale(allowed, "numpy", [result(hard, "wrong"), result(bfloat, "exact")])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\nonnx.Pow-7/* wrong", "line 2: an entry is CASES VERDICTS REASON"),
        ("onnx.Pow-7/* wrnog because", "line 1: 'wrnog' is not a finding that can be allowed"),
        ("onnx.Pow-7/* within because", "'within' is not a finding that can be allowed"),
        ("onnx.Pow-7/* refused<=16 because", "'refused<=16' is not a finding that can be allowed"),
    ],
)
def test_broken_files(text, says, tmp_path):
    with pytest.raises(HalfulpError) as caught:
        loaded(tmp_path, text)
    assert says in str(caught.value)
    assert "known.txt" in str(caught.value)


def test_files_that_can_not_be_read(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    for name, says in (("bytes", "bytes: not UTF-8"), ("large", "too large"), (".", "not a plain file")):
        with pytest.raises(HalfulpError, match=says):
            load_allowed(tmp_path / name)
