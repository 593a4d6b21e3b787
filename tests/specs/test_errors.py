"""Everything that a document forbids: the clause that says so and the text, pinned."""

import ast
import pickle
from pathlib import Path

import pytest

from halfulp.errors import REPAIR, HalfulpError, MissingFileError, ModelError, SpecError, UnsupportedError
from halfulp.operators import op
from halfulp.specs import TensorType, find

FILE = Path(__file__).with_name("forbidden.txt")
# Each block is a call (the id, operands, attributes), and the text of its error after the id.
FORBIDDEN = [block.strip().split("\n", 1) for block in FILE.read_text("utf-8").split("\n\n")]


@pytest.mark.parametrize(("call", "text"), FORBIDDEN)
def test_what_is_forbidden(call, text):
    id, operands, attributes = ast.literal_eval(call)
    op = find(id)
    with pytest.raises(SpecError) as caught:
        op.infer(*operands, **attributes)
    clause, _, rest = text.partition(": ")
    fault, newline, shown = rest.partition("\n")
    assert str(caught.value) == f"{fault} ({id}.{clause}){newline}{shown}"
    assert caught.value.clause == f"{id}.{text.partition(':')[0]}"
    known = all(shape is not None and None not in shape for _, shape in operands)
    if known and 1 <= len(operands) <= 2:
        with pytest.raises(SpecError) as planned:
            op.plan(*(TensorType(*operand) for operand in operands), **attributes)
        assert str(planned.value) == str(caught.value)


# --- the errors themselves ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (HalfulpError("no"), "no"),
        (UnsupportedError("no", got=1, expected=None), "no\n  got: 1"),
        (
            SpecError("onnx.Pow-7.C2", "no", run="f", X="float32[2]", got="b", expected="a"),
            "no (onnx.Pow-7.C2)\n  X: float32[2]\n  expected: a\n  got: b\n  run: f",
        ),
        (ModelError("no"), "no"),
        (ModelError("no", file="m.onnx"), "m.onnx: no"),
        (MissingFileError("no", file="m.onnx"), "m.onnx: no"),
        (
            ModelError("no", file="m.onnx", node="p", clause="onnx.Pow-7.C2", x="float32[2]"),
            "m.onnx: node p: no (onnx.Pow-7.C2)\n  x: float32[2]",
        ),
        (
            ModelError("no", file="my m.onnx", run=REPAIR),
            "my m.onnx: no\n  run: halfulp repair 'my m.onnx' repaired.onnx",
        ),
        (ModelError("no", file="<bytes>", run=REPAIR), "<bytes>: no\n  run: hu.repair(model)"),
    ],
)
def test_texts_and_pickling(error, text):
    assert str(error) == text
    assert isinstance(error, HalfulpError)
    assert isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == text
    assert vars(again) == vars(error)


def test_what_is_shown_is_cut():
    assert str(HalfulpError("too much", got=10**1000)) == f"too much\n  got: 1{'0' * 496}..."


def test_a_number_that_python_does_not_print():
    text = str(HalfulpError("too much", X=TensorType("int8", (10**5000,)), got=10**5000))
    assert text == ("too much\n  X: a number of thousands of digits\n  got: a number of thousands of digits")


def test_an_attribute_may_have_any_name():
    for name in ("self", "operands", "inputs"):
        with pytest.raises(SpecError, match=f"no attribute {name}"):
            find("onnx.Pow-15").infer(("float32", (2,)), ("float32", (2,)), **{name: 1})
        with pytest.raises(SpecError, match=f"no attribute {name}"):
            op("onnx.Pow-15")([1.0], [2.0], **{name: 1})
