"""Lists of findings that are known."""

from pathlib import Path

import pytest
from tests.conformance.report.documents import document

from halfulp.conformance.document import Allowed, load_allowed
from halfulp.errors import HalfulpError

TEXT = """
# known in 1.31
onnx.Pow-*/hard/*  wrong,crashed  x^3 by multiplication

[onnxruntime]
onnx.Pow-15/bfloat16,*  refused  no bfloat16 kernels
[ openvino ]
*/reproducibility/* differs folded with other code
"""


def loaded(tmp_path: Path, text: str) -> Allowed:
    """Return what a file of this text says."""
    path = tmp_path / "known.txt"
    path.write_text(text)
    return load_allowed(path)


def test_which_findings_are_allowed(tmp_path):
    allowed = loaded(tmp_path, TEXT)
    hard, bfloat = "onnx.Pow-7/float32,float32/hard/0", "onnx.Pow-15/bfloat16,float32/values/0"
    assert allowed.reason("numpy", hard, "wrong") == "x^3 by multiplication"
    assert allowed.reason("torch", hard, "crashed") is not None
    assert allowed.reason("numpy", hard, "hung") is None
    assert allowed.reason("onnxruntime", bfloat, "refused") == "no bfloat16 kernels"
    assert allowed.reason("numpy", bfloat, "refused") is None
    length = "onnx.Pow-7/float32,float32/reproducibility/length-5"
    assert allowed.reason("openvino", length, "differs") is not None


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
    assert (allowed.reason("numpy", case["id"], case["verdict"], case) == "known") == is_allowed
    # An entry is stale where nothing is wrong, not where a bound is exceeded.
    assert bool(allowed.stale("numpy", [case["id"]])) == (case["verdict"] != "wrong")


def test_stale_entries(tmp_path):
    allowed = loaded(tmp_path, TEXT)
    hard, bfloat = "onnx.Pow-7/float32,float32/hard/0", "onnx.Pow-15/bfloat16,float32/values/0"
    assert [entry.line for entry in allowed.stale("onnxruntime", [hard, bfloat])] == [3, 6]
    allowed.reason("onnxruntime", hard, "wrong")
    (stale,) = allowed.stale("onnxruntime", [hard, bfloat])
    assert str(stale) == "[onnxruntime] onnx.Pow-15/bfloat16,* refused no bfloat16 kernels"
    # Nothing is known about cases that were not run, and about other targets.
    assert not allowed.stale("onnxruntime", [hard])
    assert not allowed.stale("numpy", [bfloat])


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
