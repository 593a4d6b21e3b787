"""ONNX Runtime by patched models and by the provider: the bits of hu.pow and hu.prelu in every model, or an error.

The session's memory, threads and library are tested in test_onnxruntime_session.py, what the provider alone does in
test_onnxruntime_provider.py.
"""

import itertools
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, parser
from tests.models.onnx_models import external, single, with_initializer
from tests.oracle.grids import pow_grid, prelu_grid

import halfulp as hu
from halfulp.errors import HalfulpWarning, ModelError, SpecError
from halfulp.specs import OpVersion, find, ids
from halfulp.types import TYPES

ort: Any = pytest.importorskip("onnxruntime")
plugin: Any = pytest.importorskip("halfulp.integrations.onnxruntime")

TOO_OLD = tuple(map(int, ort.__version__.split(".")[:2])) < (1, 24)
takes_providers = pytest.mark.skipif(TOO_OLD, reason="this onnxruntime takes no provider with kernels")

OTHERS = ["AzureExecutionProvider", "CPUExecutionProvider"]
ROWS = [find(id) for id in ids() if id.startswith("onnx.")]
PAIRS = [
    (row, x, y) for row in ROWS for x in row.type_variables["T"] for y in row.type_variables.get("T1", (x,))
]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(6)


def opened(model: ModelProto | Path, options: Any = None, **choices: Any) -> Any:
    """Return a session with the provider."""
    options = options or ort.SessionOptions()
    options.log_severity_level = 4
    plugin.provider(options, **choices)
    return ort.InferenceSession(str(model) if isinstance(model, Path) else model.SerializeToString(), options)


BOTH_WAYS = pytest.mark.parametrize(
    "session_of",
    [lambda model: plugin.session(plugin.patch(model)), pytest.param(opened, marks=takes_providers)],
    ids=["patched", "provider"],
)


def answer(model: ModelProto | Path | bytes, feeds: Mapping[str, Any], options: Any = None) -> np.ndarray:
    """Return the first output of a session of a patched model."""
    given = model if isinstance(model, Path) else plugin.patch(model)  # a path's weights are beside it
    return next(iter(plugin.run(plugin.session(given, options), feeds).values()))


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    word = f"u{expected.dtype.itemsize}"
    wrong = np.flatnonzero(np.ravel(got).view(word) != np.ravel(expected).view(word))
    assert not wrong.size, f"{wrong.size} differ, at {wrong[:5]}"


def node_model(row: OpVersion, x: np.ndarray, y: np.ndarray, **attributes: int) -> ModelProto:
    """Return a model of one node that declares types, but no shapes."""
    inputs = {row.inputs[0].name: (x.dtype.name, None), row.inputs[1].name: (y.dtype.name, None)}
    return single(row.name, int(row.version), inputs, (x.dtype.name, None), **attributes)


@BOTH_WAYS
@pytest.mark.parametrize(("row", "x_type", "y_type"), PAIRS, ids=lambda value: getattr(value, "id", value))
def test_every_version_and_type_pair(row, x_type, y_type, session_of, rng):
    grid = prelu_grid(x_type, rng) if row.name == "PRelu" else pow_grid(x_type, y_type, rng)
    x, y = (np.concatenate([getattr(part, operand) for part in grid]) for operand in "xy")
    if row.version in ("1", "6") and row.name == "PRelu":  # whose slope of rank 1 is a channel's
        x, y = x[None], y[None]
    function = hu.prelu if row.name == "PRelu" else hu.pow
    names = [port.name for port in row.inputs]
    (got,) = plugin.run(session_of(node_model(row, x, y)), dict(zip(names, (x, y), strict=True))).values()
    assert_same_bits(got, function(x, y))


def test_many_powers_with_one_exponent(rng):
    """They are looked up, in a table that a node keeps for the same exponent, while others may compute theirs."""
    x, exponents = rng.uniform(0.5, 3, 1 << 18).astype(np.float16), np.array([2.7, 1.3] * 6, np.float16)
    expected = {y: hu.pow(x, np.full_like(x, y)) for y in set(exponents.tolist())}
    session = plugin.session(plugin.patch(node_model(find("onnx.Pow-15"), x, x)))
    with ThreadPoolExecutor(3) as callers:
        results = callers.map(lambda y: session.run(None, {"X": x, "Y": y.reshape(1)})[0], exponents)
    for y, result in zip(exponents.tolist(), results, strict=True):
        assert_same_bits(result, expected[y])


SHAPES: list[tuple[int, ...]] = [
    (), (1,), (3,), (4,), (1, 1), (3, 4), (3, 1), (2, 3, 4), (2, 1, 4), (0, 3), (1, 2, 3, 4), (4, 3, 2)
]  # fmt: skip
RULES = [find(id) for id in ("onnx.Pow-1", "onnx.Pow-15", "onnx.PRelu-1", "onnx.PRelu-9", "onnx.PRelu-16")]
ATTRIBUTES: list[dict[str, int]] = [
    {}, {"axis": 1}, {"broadcast": 1}, *({"broadcast": 1, "axis": axis} for axis in (-3, -1, 0, 1, 2))
]  # fmt: skip


@BOTH_WAYS
@pytest.mark.parametrize("row", RULES, ids=lambda row: row.id)
def test_shapes_known_only_at_run_time(row, session_of, rng):
    """Each pair of shapes gives the operator's own result, or its own error, word for word."""
    operator = hu.op(row.id)
    refused = 0
    for attributes in ATTRIBUTES if row.id == "onnx.Pow-1" else [{}]:
        some = np.zeros((), np.float32)
        session = session_of(node_model(row, some, some, **attributes))
        for x_shape, y_shape in itertools.product(SHAPES, SHAPES):
            x, y = (rng.normal(size=shape).astype(np.float32) for shape in (x_shape, y_shape))
            feeds = {row.inputs[0].name: x, row.inputs[1].name: y}
            try:
                expected = operator(x, y, **attributes)
            except SpecError as error:
                refused += 1
                with pytest.raises(Exception, match=f"Status Message: {re.escape(str(error))}$"):
                    session.run(None, feeds)
            else:
                assert_same_bits(session.run(None, feeds)[0], expected)
    assert refused > 20


def test_a_broken_model_is_repaired(rng):
    model = single("PRelu", 9, {"x": ("float32", [2, 3, 4]), "w": ("float32", [3])}, ("float32", None))
    with pytest.warns(HalfulpWarning, match=r"slope of shape \[3\] gets the shape \[3, 1\]"):
        session = plugin.session(model, repair=True)
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in ((2, 3, 4), (3,)))
    (got,) = session.run(None, {"x": x, "w": w})
    np.testing.assert_array_equal(got, np.where(x < 0, x * w[:, None], x))


def test_what_is_wrong_before_the_run_is_found_at_the_start():
    model = single("PRelu", 9, {"x": ("float32", [2, 3]), "w": ("float32", [5])}, ("float32", None))
    with pytest.raises(
        ModelError, match=r"node 'node' \(PRelu\): slope must be .* \(onnx.PRelu-9.C2\)"
    ) as error:
        plugin.session(model)
    assert error.value.clause == "onnx.PRelu-9.C2"
    assert str(error.value).endswith("run: hu.repair(model)")
    model = single("Pow", 14, {"x": ("bfloat16", [2]), "y": ("bfloat16", [2])}, ("bfloat16", None))
    with pytest.raises(ModelError, match=r"Y must have a type .* \(onnx.Pow-13.C7\)"):
        plugin.session(model)


@pytest.mark.parametrize("every", [True, False])
def test_functions_that_nest_too_deep(every):
    head = '<domain: "own", opset_import: ["": 15, "own": 1]>'
    texts = "".join(f"{head} f{i} (x) => (y) {{ y = own.f{i - 1} (x) }}" for i in range(1, 300))
    calls = "".join(f"t{i} = own.f{i} (x)" for i in range(300 if every else 0))
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 15, "own": 1]>
        g (float[N] x) => (float[N] y) {{ {calls} y = own.f299 (x) }}
        {head} f0 (x) => (y) {{ y = Pow (x, x) }} {texts}"""
    )
    with pytest.raises(ModelError, match="its graphs and functions nest too deep"):
        plugin.patch(model)


def test_a_tensor_whose_type_is_unknown():
    model = with_initializer(np.float32([2, 3]))
    model.graph.initializer[0].data_type = 127
    with pytest.raises(ModelError, match=r"initializer '\w+' has an unknown element type\s+got: 127$"):
        plugin.session(model)


def test_types_that_only_onnxruntime_infers():
    """BiasGelu is ONNX Runtime's own: the onnx package does not know its output's type."""
    text = """<ir_version: 8, opset_import: ["": 15, "com.microsoft": 1]>
        g (float[N, 2] x, float[2] b) => (float[M, 2] z) {
            h = com.microsoft.BiasGelu(x, b)  y = Pow(h, b)  z = Pow(y, b)
        }"""
    model = parser.parse_model(text)
    x, b = np.array([[0.5, 2.0]], np.float32), np.array([1.5, 2.5], np.float32)
    text = text.replace("y = Pow(h, b)  z = Pow(y, b)", "z = Identity(h)")
    hidden = ort.InferenceSession(parser.parse_model(text).SerializeToString()).run(None, {"x": x, "b": b})[0]
    assert_same_bits(answer(model, {"x": x, "b": b}), hu.pow(hu.pow(hidden, b), b))


def test_a_float16_node_alone_stays_float16():
    """Where a name has a float32 kernel as well, ONNX Runtime takes that for such a node."""
    text = """<ir_version: 8, opset_import: ["": 15]> g (float16[N] x, float16[N] y) => (float16[N] z) {
        a = Identity(x)  p = Pow(a, y)  z = Sign(p) }"""
    model = parser.parse_model(text)
    model.graph.output.append(helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT16, ["N"]))
    rng = np.random.default_rng(1)
    x, y = rng.uniform(0.1, 9, 20001).astype(np.float16), rng.uniform(-4, 4, 20001).astype(np.float16)
    assert_same_bits(plugin.run(plugin.session(model), {"x": x, "y": y})["p"], hu.pow(x, y))


def test_initializers_and_constants(tmp_path, monkeypatch):
    w = np.array([0.5, 2, -1], np.float64)
    model = with_initializer(w)
    x = np.array([2.0, 3.0, 4.0])
    assert_same_bits(answer(model.SerializeToString(), {"x": x}), hu.pow(x, w))
    (tmp_path / "weights.bin").write_bytes(w.tobytes())
    onnx.save(external(model, "weights.bin", length=w.nbytes), tmp_path / "model.onnx")
    if tuple(map(int, ort.__version__.split(".")[:2])) >= (1, 21):
        assert_same_bits(answer(tmp_path / "model.onnx", {"x": x}), hu.pow(x, w))
        repaired = plugin.session(tmp_path / "model.onnx", providers=OTHERS, repair=True)
        assert_same_bits(repaired.run(None, {"x": x})[0], hu.pow(x, w))
    onnx.save(with_initializer(w), tmp_path / "plain.onnx")
    monkeypatch.setattr(ort, "__version__", "1.20.1")
    assert_same_bits(answer(tmp_path / "plain.onnx", {"x": x}), hu.pow(x, w))
    with pytest.raises(hu.UnsupportedError, match="read the external data"):
        plugin.session(tmp_path / "model.onnx")


@pytest.mark.parametrize("types", [("float32", "int64"), ("bfloat16", "int64")])
def test_byte_order_is_not_a_type(types):
    """onnxruntime itself takes an array's bytes as if they were in the machine's order."""
    model = single("Pow", 15, {"x": (types[0], ["N"]), "y": (types[1], ["N"])}, (types[0], ["N"]))
    x, y = np.arange(3).astype(TYPES[types[0]].dtype), np.array([2, 3, 4])
    other = x.astype(x.dtype.newbyteorder(">")) if types[0] == "float32" else x
    assert_same_bits(answer(model, {"x": other, "y": y.astype(">i8")}), hu.pow(x, y))


def test_the_types_of_the_table_are_those_of_the_rows():
    """A row that gains a type must gain a custom operator: the library names one for each."""
    data = Path(plugin.library()).read_bytes()
    for row in ROWS:
        for name in row.type_variables["T"]:
            assert name in TYPES
            assert name.encode() in data
