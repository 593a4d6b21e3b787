"""What holds for every row, and the forms in which a row can be had."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from halfulp.errors import UnsupportedError
from halfulp.specs import OpVersion, find, ids, in_force
from halfulp.types import TYPES

every_row = pytest.mark.parametrize("op", [find(id) for id in ids()], ids=ids())


def checks(op: OpVersion) -> set[str]:
    """The names of every check that can fail for this row."""
    names = {"inputs", "output", "shape", "unknown attribute"}
    names |= {f"type {variable}" for variable in op.type_variables}
    names |= {f"attribute {attribute.name}" for attribute in op.attributes}
    names |= {"rank", "size"} if op.ranks else set()
    by_rule = {
        "none": {"equal shapes"},
        "auto_broadcast": {"equal shapes"},
        "legacy axis": {"equal shapes", "1-dim expansion"},
        "per channel, else numpy": {"rank"},
    }
    return names | (by_rule.get(op.broadcasting.name, set()) if len(op.inputs) == 2 else set())


@every_row
def test_clauses_are_numbered_and_every_check_has_exactly_one(op):
    assert [clause.id for clause in op.clauses] == [f"C{n}" for n in range(1, len(op.clauses) + 1)]
    enforced = [check for clause in op.clauses for check in clause.enforces]
    assert len(enforced) == len(set(enforced))
    assert set(enforced) == checks(op)


@every_row
def test_ids_ports_and_types_are_consistent(op):
    assert op.id == f"{op.standard}.{op.name}-{op.version}"
    used = {port.type for port in (*op.inputs, *op.outputs)}
    assert used == set(op.type_variables)
    assert all(set(types) <= set(TYPES) for types in op.type_variables.values())
    assert op.outputs[0].type == op.inputs[0].type
    assert op.source.startswith("https://")
    assert op.function == (op.body is not None) or op.function is None
    kernel = "prelu" if "relu" in op.name.lower() else "pow"
    assert op.kernel == (f"{kernel}_directml" if (op.standard, kernel) == ("directml", "pow") else kernel)


@every_row
def test_silence_cites_the_contract(op):
    rules = {item.rule for item in op.unspecified if item.rule}
    integers = any(TYPES[name].kind != "float" for name in op.type_variables[op.inputs[0].type])
    if op.kernel == "prelu":
        expected = {"N5", "N7"}
    else:
        expected = {"N1", "N2", "N7"} | ({"N3", "N4"} if integers else set())
        expected |= {"N6", "N9"} if op.standard == "directml" else set()
    assert rules == expected
    for part in ("key", "question"):
        parts = [getattr(item, part) for item in op.unspecified]
        assert len(parts) == len(set(parts))


@every_row
def test_a_row_is_frozen_and_pickles_as_itself(op):
    with pytest.raises(FrozenInstanceError):
        op.id = "other"
    with pytest.raises(TypeError):
        op.type_variables["T"] = ()
    assert pickle.loads(pickle.dumps(op)) is op
    assert copy.deepcopy(op) is op
    assert hash(op) == hash(find(op.id))


def test_a_row_can_be_varied():
    wide = replace(find("onnx.Pow-15"), type_variables={"T": tuple(TYPES), "T1": tuple(TYPES)})
    assert wide.infer(("float8_e5m2", (2,)), ("uint4", (3, 1))) == ("float8_e5m2", (3, 2))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: find("onnx.Pwo-7"), "no operator version onnx.Pwo-7; did you mean onnx.Pow-7?"),
        (
            lambda: find("openvino.PReLU"),
            "openvino.PReLU: the version is missing\n  expected: openvino.PReLU-1",
        ),
        (lambda: find(3), "an operator version is named by a string, such as 'onnx.Pow-13'\n  got: 3"),
        (lambda: find("onnx.Pow-0"), "onnx.Pow has no version 0\n  expected: 1 or later"),
        (lambda: in_force("onnx", "Sqrt", 7), "no operator onnx.Sqrt"),
    ],
)
def test_what_is_not_there(call, text):
    with pytest.raises(UnsupportedError) as caught:
        call()
    assert str(caught.value) == text
