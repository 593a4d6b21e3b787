"""What is said of a target: from measured data, narrowed to a node; versions; conversions."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from tests.models.onnx_models import parsed
from typer.testing import CliRunner

import halfulp as hu
from halfulp import measured
from halfulp import measured as reader
from halfulp.auditing.target import Asked, spelled, statement
from halfulp.auditing.uses import Operand, Use
from halfulp.cli import app
from halfulp.conformance.case import ASPECTS
from halfulp.conformance.judge import GRADES, VERDICTS
from halfulp.errors import HalfulpError
from halfulp.measured import available, nearest
from halfulp.types import TYPES

DOCUMENT: dict[str, Any] = {
    "schema": "halfulp.measured/1",
    "target": {"name": "abacus", "version": "2.0", "versions": {"abacus": "2.0"}},
    "run": {"halfulp": "0.1.0", "date": "2026-11-20", "mode": "quick", "ulp_limit": 4},
    "accepts": ["onnx.Pow-13.C2"],
    "rows": [
        {
            "operator": "onnx.Pow-13",
            "types": ["float32", "float32"],
            "verdict": "wrong",
            "max_ulp": 9.0,
            "groups": {
                "values": {"verdict": "within", "max_ulp": 1.0},
                "special": {"verdict": "wrong", "wrong": 2, "example": "(-0)^0.5 gives -0, not 0"},
                "broadcast": {
                    "verdict": "wrong",
                    "wrong": 3,
                    "max_ulp": 9.0,
                    "shapes": [
                        *([[[2, 3, 4], [4]], []], [[[2, 3], [1, 3]], []]),
                        *([[[2, 3], [2]], ["axis", "broadcast"]], [[[2, 3], [1]], ["axis"]]),
                    ],
                },
            },
            "differs": ["position", "scalar exponent", "constant folding"],
        },
        {
            "operator": "onnx.Pow-13",
            "types": ["bfloat16", "float32"],
            "verdict": "refused",
            "message": "no kernel",
        },
        {"operator": "onnx.Pow-13", "types": ["float64", "float64"], "verdict": "exact"},
        {"operator": "onnx.Pow-13", "types": ["float32", "int32"], "verdict": "exact"},
        {"operator": "onnx.Pow-13", "types": ["float16", "float16"], "verdict": "refused"},
    ],
    "constants": {
        "float32,float32": {
            "2": ["exact"],
            "16": ["exact"],
            "0.5": ["wrong", None, "(-inf)^0.5 gives nan, not inf", "edges"],
            "-0.5": ["wrong", 1.0, "inf^-0.5 gives -0, not 0", "edges"],
            "inf": ["wrong", 1.0, "2^inf gives 1, not inf", "ordinary"],
            "-2": ["wrong", 1.0, "3^-2 gives 0.1, not 0.11", "ordinary"],
            "0.10000000149011612": ["within", 2.0, "0.7^0.1 gives 0.9649, not 0.965", None, "position"],
        }
    },
}
ABACUS = Asked("abacus", None, reader.from_json(DOCUMENT))


def use(x: Any, y: Any, operator: str = "onnx.Pow-13") -> Use:
    """Return a node; an operand is a pair (type, shape), or an array for a constant."""
    operands = [
        Operand(name, given.dtype.name, given.shape, given)
        if isinstance(given, np.ndarray)
        else Operand(name, *given)
        for name, given in (("x", x), ("y", y))
    ]
    return Use("n", operator, "13", tuple(operands), Operand("z", operands[0].type))


THREE = ("float32", (3,))


@pytest.mark.parametrize(
    ("values", "text", "is_held"),
    [
        (np.float16([0.1]), "0.1", True),
        (np.float32([2, np.nan]), "nan", True),
        (np.float32([2]), "nan", False),
        (np.float32([np.nan]), "3", False),
        (np.int8([1, 44]), "300", False),
        (np.int64([1, 2]), "1.5", False),
        (np.uint64([2**64 - 1]), "18446744073709551615", True),
    ],
)
def test_the_numbers_of_an_example_are_compared_in_their_type(values, text, is_held):
    assert Operand("y", values.dtype.name, values.shape, values).holds(text) == is_held


AT_EDGES = "to the power of 0.5, only for zeros, infinities and numbers near overflow or underflow: "


@pytest.mark.parametrize(
    ("exponent", "verdict", "max_ulp", "reasons"),
    [
        (2, "exact", None, ()),
        (0.5, "wrong", None, (AT_EDGES + "(-inf)^0.5 gives nan, not inf",)),
        (0.1, "within", 2.0, ()),
        *((each, "within", 1.0, ()) for each in (7, 9)),  # as 2 and 16
        (2.2, "within", 2.0, ()),  # as 0.1, and not as 0.5, which is a square root
        (-3, "wrong", 1.0, ("to the power of -3, measured with another exponent",)),  # as -2
        *(
            (each, "wrong", 1.0, ("special values, measured with another exponent",))
            for each in (70, 8.5, 0, 1, -np.inf)
        ),
    ],
)
def test_a_constant_exponent_that_was_measured(exponent, verdict, max_ulp, reasons):
    for shape in ((), (1,)):
        said = statement(use(THREE, np.full(shape, exponent, np.float32)), ABACUS, ())
        assert (said.verdict, said.max_ulp, said.reasons) == (verdict, max_ulp, reasons)
        assert said.depends == (() if exponent in (2, 0.5) else ("position",))
        grades = {0.5: "edges", -3: "ordinary"} | dict.fromkeys((0.1, 2.2, 7, 9), "reproducibility")
        assert said.grade == grades.get(exponent)
    # A tensor of exponents need not be computed as one exponent is.
    assert statement(use(THREE, np.array([exponent, 2, 2], np.float32)), ABACUS, ()).verdict == "wrong"


@pytest.mark.parametrize(
    ("exponent", "bases", "verdict"),
    [
        *((-0.5, bases, "within") for bases in ([8], [2.0**-20])),
        # The last are too many to look at each.
        *((-0.5, bases, "wrong") for bases in ([0], [np.inf], [2.0**-126], range(4, 5000))),
        *((-2, [8], "wrong"), (0.5, [8], "wrong")),
    ],
)
def test_a_fault_of_other_operands_than_the_constants(exponent, bases, verdict):
    found = statement(use(np.float32([3, *bases]), np.full((1,), exponent, np.float32)), ABACUS, ())
    assert found.verdict == verdict
    assert found.max_ulp == (None if exponent == 0.5 else 1)
    assert bool(found.reasons) == (verdict == "wrong")


def test_the_nearest_version(tmp_path, monkeypatch):
    for version in ("1.20.1", "1.31.1", "1.9.0"):
        document = {**DOCUMENT, "target": {"name": "abacus", "version": version}}
        (tmp_path / f"abacus-{version}.json").write_text(json.dumps(document))
    monkeypatch.setattr(reader, "_FOLDER", tmp_path)
    monkeypatch.setattr(reader, "_files", reader._files.__wrapped__)  # without its cache
    assert available() == {"abacus": ("1.9.0", "1.20.1", "1.31.1")}
    found = {}
    for version in (None, "1.31.1", "1.31.0", "1.20.1", "2.0", "1.0.0"):
        measured = nearest("abacus", version)
        found[version] = measured.version
    assert found == {
        None: "1.31.1",
        "1.31.1": "1.31.1",
        "1.31.0": "1.20.1",
        "1.20.1": "1.20.1",
        "2.0": "1.31.1",
        "1.0.0": "1.9.0",
    }


def test_other_schemas_are_refused():
    with pytest.raises(ValueError, match="not halfulp"):
        reader.from_json({**DOCUMENT, "schema": "halfulp.measured/2"})


FLOATS, INTS, LONGS = ("float32", ("N",)), ("int32", ("N",)), ("int64", ("N",))


@pytest.mark.parametrize(
    ("target", "node", "verdict", "depends"),
    [
        ("onnxruntime==1.31.1", use(FLOATS, FLOATS), "within", ()),
        ("onnxruntime==1.31.1", use(("bfloat16", ("N",)), FLOATS), "refused", ()),
        ("onnxruntime==1.31.1", use(LONGS, LONGS), "wrong", ()),
        ("onnxruntime==1.31.1", use(LONGS, np.array(1)), "wrong", ()),
        ("onnxruntime==1.31.1", use(FLOATS, np.array(2, np.float32)), "exact", ()),
        ("onnxruntime==1.31.1", use(FLOATS, FLOATS, "onnx.PRelu-7"), "exact", ()),
        ("onnxruntime==1.20.1", use(FLOATS, FLOATS, "onnx.PRelu-7"), "wrong", ()),
        ("openvino==2026.4.1", use(("float64", ("N",)), ("float64", ("N",))), "wrong", ()),
        ("openvino==2026.4.1", use(INTS, INTS, "openvino.Power-1"), "wrong", ()),
        ("torch==2.13.0", use(FLOATS, FLOATS), "within", ("position", "length", "threads")),
        ("torch==2.13.0", use(FLOATS, np.array(3, np.float32)), "within", ()),
        ("numpy==2.4.6", use(INTS, np.array(-1)), "refused", ()),
        ("numpy==2.4.6", use(INTS, np.array(2)), "exact", ()),
        ("jax==0.10.2", use(FLOATS, FLOATS, "onnx.PRelu-16"), "wrong", ()),
        ("onnx-reference==1.23.2", use(FLOATS, FLOATS, "onnx.PRelu-16"), "wrong", ()),
    ],
)
def test_what_is_known_of_runtimes(target, node, verdict, depends):
    said = statement(node, spelled(target), ())
    assert (said.verdict, said.depends) == (verdict, depends)


def test_what_ships_is_sound():
    for name, versions in available().items():
        for version in versions:
            measured = nearest(name, version)
            assert (measured.target, measured.version) == (name, version)
            assert measured.rows
            for operator, types in measured.rows:
                assert len(types) == len(hu.op(operator).inputs)


# --- nothing is said that is not about the node itself -------------------------------------------------

EXPONENTS = (0, 1, 2, 7, 100, -1, 0.5, 0.3, -0.5, 1e10, np.nan)
SLOPES = (0, -1, 7, 0.25, -0.5, 1e-4, 5000, np.inf, np.nan)
VERSIONS = (
    "onnx.Pow-1",
    "onnx.Pow-15",
    "onnx.PRelu-1",
    "onnx.PRelu-16",
    "openvino.Power-1",
    "openvino.PReLU-1",
)
MEASURED = [(name, version) for name, versions in available().items() for version in versions]


def nodes_of(operator: str, types: tuple[str, str]) -> Iterator[Use]:
    """Give nodes with one constant and with several, of one shape and broadcast, and with a constant base."""
    x, y = (TYPES[kind] for kind in types)
    for number in SLOPES if ".PR" in operator else EXPONENTS:
        if y.kind != "float" and not (float(number).is_integer() and (number >= 0 or y.kind == "int")):
            continue
        with np.errstate(all="ignore"):
            for shape in ((), (3, 4, 5)):
                constant = np.full(shape, number, np.float64).astype(y.dtype)
                operands = Operand("x", x.name, (2, 3, 4, 5)), Operand("y", y.name, shape, constant)
                yield Use("n", operator, "1", operands, Operand("z", x.name))
    if ".PR" not in operator:
        base = np.full((), 10, np.float64).astype(x.dtype)
        operands = Operand("x", x.name, (), base), Operand("y", y.name, ("N",))
        yield Use("n", operator, "1", operands, Operand("z", x.name))


@pytest.mark.parametrize("target", MEASURED, ids="==".join)
def test_causes_and_examples_are_of_the_nodes_own_constants_and_shapes(target):
    measured = nearest(*target)
    assert measured is not None
    known = Asked(target[0], None, measured, measured)
    for (operator, types), row in measured.rows.items():
        if (
            operator not in VERSIONS
            or any(TYPES[kind].bits < 8 for kind in types)
            or not (row.groups or row.differs)
        ):
            continue
        for use in nodes_of(operator, types):
            said = statement(use, known, (), lambda *_: None)
            where = f"{target} {operator} {types} {use.inputs}: {said}"
            for reason in said.reasons:
                found = EXAMPLE.search(reason)
                for operand, number in zip(use.inputs, found.group("x", "y") if found else (), strict=False):
                    if operand.constant is not None:
                        assert operand.holds(number.strip("()")), where
            assert "scalar exponent" not in said.depends, where
            if use.second.constant is not None and use.second.constant.size == 1:
                assert not any(reason.startswith("broadcasting: up to") for reason in said.reasons), where


EXAMPLE = re.compile(r"(?P<x>\S+?)(\^| with slope )(?P<y>\S+) gives ")


@pytest.mark.parametrize(
    ("target", "node", "verdict"),
    [
        # 10000^(i / d): no path for one exponent is taken for one base.
        ("onnxruntime==1.31.1", use(np.array(10000, np.float32), ("float32", ("N",))), "within"),
        ("jax==0.10.2", use(("float32", ("N", 4)), np.array(2, np.float32), "onnx.Pow-15"), "wrong"),
        ("onnxruntime==1.31.1", use(("int64", ("N",)), np.array(3), "onnx.Pow-15"), "exact"),
        ("onnxruntime==1.31.1", use(("float32", ("N",)), np.array(7), "onnx.Pow-15"), "exact"),  # as 5 and 8
        (
            "onnxruntime==1.31.1",
            use(("float16", ("N", 3, 1, 1)), np.full((3, 1, 1), 0.25, np.float16), "onnx.PRelu-16"),
            "exact",
        ),
        (
            "onnxruntime==1.31.1",
            use(("float16", ("N", 3, 1, 1)), np.array([[[0.25]], [[0]], [[3]]], np.float16), "onnx.PRelu-16"),
            "wrong",
        ),
        ("onnx-reference==1.23.2", use(FLOATS, np.array([0.3], np.float32), "onnx.PRelu-16"), "exact"),
        ("onnx-reference==1.23.2", use(FLOATS, np.array([np.inf], np.float32), "onnx.PRelu-16"), "wrong"),
    ],
)
def test_constants_narrow_a_verdict(target, node, verdict):
    said = statement(node, spelled(target), ())
    assert (said.verdict, said.depends) == (verdict, ())


def test_a_column_in_onnx_runtime():
    """Where the installed version still takes squares of columns by powf, the audit has to say so."""
    ort = pytest.importorskip("onnxruntime")
    model = parsed("15: g (float[N, 1] x) => (float[N, 1] z) <float two = {2}> { z = Pow (x, two) }")
    x = np.linspace(1, 2, 100_000, dtype=np.float32).reshape(-1, 1)
    (z,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    (node,) = hu.audit(model, "onnxruntime").models[0].nodes
    assert (node.targets[0].verdict == "within") >= bool((z != x * x).any())


def test_a_document_of_check_is_a_target(tmp_path):
    """A runtime of one's own, whose powers of subnormals are flushed: judged by its document, and by grade."""
    file = tmp_path / "mine.json"
    report = hu.check(_flushes, types="float32,float32", processes=1)
    file.write_text(report.json())
    model = parsed("15: g (float[N] x, float[N] y) => (float[N] z) { z = Pow (x, y) }")
    audited = hu.audit(model, str(file))
    (said,) = audited.models[0].nodes[0].targets
    assert (said.verdict, said.grade) == ("wrong", "subnormals")
    assert said.target.endswith(":_flushes")
    assert {finding.grade for finding in audited.findings} == {"subnormals"}
    onnx.save(model, tmp_path / "a.onnx")
    for grade, status in (("support", 1), ("subnormals", 1), ("nan", 0)):
        arguments = ["audit", str(tmp_path / "a.onnx"), "--target", str(file), "--fail-on", grade]
        assert CliRunner().invoke(app, arguments).exit_code == status
    file.write_text("{}")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    os.mkfifo(tmp_path / "pipe.json")
    for path, says in (
        (tmp_path / "deep.json", "expected the document of one runtime"),
        (tmp_path / "pipe.json", "not a plain file"),
        (file, "expected the document of one runtime"),
        (tmp_path / "none.json", "can't be read"),
    ):
        with pytest.raises(HalfulpError, match=says):
            spelled(str(path))


def _flushes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    power = np.asarray(hu.pow(x, y))
    return np.where(np.abs(power) < np.finfo(x.dtype).smallest_normal, 0 * power, power)


def test_the_orders_are_those_of_check():
    assert (measured.VERDICTS, measured.ASPECTS) == (VERDICTS, ASPECTS)
    assert tuple(GRADES) == measured.GRADES


@pytest.mark.parametrize("exponent", [3, 4, 5, 6, 7, 8, 10, 14, 50, 100])
def test_products_for_whole_exponents_are_as_far_off_as_said(exponent):
    openvino = pytest.importorskip("openvino")
    model = parsed(f"17: g (float[N] x) => (float[N] z) <float e = {{{exponent}}}> {{ z = Pow (x, e) }}")
    x = np.random.default_rng(1).uniform(1, 2, 100_000).astype(np.float32)
    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    right = (x.astype(np.longdouble) ** exponent).astype(np.float32)
    distance = np.abs(compiled(x)[0].view(np.int32) - right.view(np.int32)).max()
    ((said,),) = [node.targets for node in hu.audit(model, "openvino").models[0].nodes]
    assert said.verdict == ("within" if distance <= 4 else "wrong")
    assert said.verdict == "wrong" or distance <= said.max_ulp


@pytest.mark.newer
@pytest.mark.parametrize("slope", [0.25, -0.25])
@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_a_zero_that_may_have_another_sign_is_not_right(runtime, slope):
    library = pytest.importorskip(runtime)
    model = parsed(f"""16: g (float[1, 4] x) => (float[1, 4] z) <float[1] s = {{{slope}}}>
        {{ z = PRelu (x, s) }}""")
    x, data = np.array([[0, -0.0, 1, -1]], np.float32), model.SerializeToString()
    if runtime == "onnxruntime":
        (z,) = library.InferenceSession(data).run(None, {"x": x})
    else:
        z = library.Core().compile_model(library.Core().read_model(data), "CPU")(x)[0]
    (summary,) = hu.audit(model, runtime).summaries
    if (np.signbit(z[0, :2]) != [False, True]).any():  # on this processor
        assert summary.text == "its one node within: zeros may have another sign"
    assert summary.is_right == (runtime == "onnxruntime" or slope > 0)
    assert not hu.audit(model, runtime).findings
