"""OpenVINO on our operators: the bits of hu.op in every type, and an error wherever a type would be narrowed."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from tests.oracle.grids import pow_grid, prelu_grid

import halfulp as hu
from halfulp.errors import ModelError

ov: Any = pytest.importorskip("openvino")
o: Any = pytest.importorskip("openvino.opset13")
plugin: Any = pytest.importorskip("halfulp.integrations.openvino")
operators: Any = pytest.importorskip("halfulp.integrations.openvino.operators")

wide = pytest.mark.skipif(not operators.keeps_wide_types(), reason="this OpenVINO keeps no f64")
KINDS = [pytest.param(kind, marks=wide) if kind in operators.WIDE else kind for kind in operators.ROWS]
F32 = {"INFERENCE_PRECISION_HINT": "f32"}


def is_float(kind: Any) -> bool:
    (name,) = getattr(kind, "values", (kind,))
    return operators.ROWS[name].kind == "float"


def parameter(kind: str, *shape: int) -> Any:
    return o.parameter(list(shape), getattr(ov.Type, kind))


def answer(model: Any, *feeds: np.ndarray, device: str = "CPU") -> np.ndarray:
    """Return the first output of a model with our operators."""
    gc.collect()  # the operators must live without a reference in Python
    request = ov.Core().compile_model(model, device, F32 if device == "CPU" else {}).create_infer_request()
    request.infer([operators.tensor_of(feed) for feed in feeds])
    return operators.array_of(request.get_output_tensor(0)).copy()


def replaced(outputs: list[Any], *parameters: Any) -> Any:
    return plugin.replace(ov.Model(outputs, list(parameters)))


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_powers_of_every_type(kind: str, dynamic: bool) -> None:
    name = operators.ROWS[kind].name
    grid = pow_grid(name, name, np.random.default_rng(6))
    x, y = (np.concatenate([getattr(part, side) for part in grid]) for side in "xy")
    a, b = (parameter(kind, -1 if dynamic else x.size) for _ in range(2))
    assert_same_bits(answer(replaced([o.power(a, b)], a, b), x, y), hu.pow(x, y))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if is_float(kind)])
def test_prelu_of_every_type(kind: str) -> None:
    name = operators.ROWS[kind].name
    grid = prelu_grid(name, np.random.default_rng(7))
    x, slope = (np.concatenate([getattr(part, side) for part in grid]) for side in "xy")
    if kind in ("f16", "bf16") and not operators.keeps_wide_types():
        # It may arrive as f32, which keeps of a NaN the sign alone.
        with np.errstate(invalid="ignore"):  # signalling NaNs
            x = np.where(np.isnan(x), np.copysign(np.array(np.nan, x.dtype), x), x)
    a, b = parameter(kind, 1, x.size), parameter(kind, x.size)
    assert_same_bits(answer(replaced([o.prelu(a, b)], a, b), x[None], slope), hu.prelu(x[None], slope))


@pytest.mark.parametrize("kind", ["f16", "bf16", "i16", "u16", "u32"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_type_that_is_held_in_a_wider_one_meets_other_operators(kind: str, dynamic: bool) -> None:
    dtype = operators.ROWS[kind].dtype
    x = parameter(kind, -1 if dynamic else 4)
    power = o.power(x, x)
    outputs = [power, o.add(power, x), o.concat([power, x], 0), o.power(power, o.add(x, x))]
    values = np.array([3, 2, 1, 0], dtype)
    results = ov.Core().compile_model(replaced(outputs, x), "CPU", F32)(
        [operators.tensor_of(values)], share_outputs=True
    )
    powers = hu.pow(values, values)
    joined, last = np.concatenate([powers, values]), hu.pow(powers, values + values)
    expected = [powers, powers + values, joined, last]
    for result, right in zip(results.values(), expected, strict=True):
        assert_same_bits(result.view(dtype), right)


@pytest.mark.parametrize("kind", ["f32", pytest.param("f64", marks=wide)])
def test_a_slope_of_rank_1_goes_to_the_channels(kind: str) -> None:
    dtype = operators.ROWS[kind].dtype
    x = np.random.default_rng(8).normal(size=(2, 3, 3)).astype(dtype)
    slope = np.array([0.1, 0.2, 0.3], dtype)
    a = parameter(kind, -1, 3, -1)
    got = answer(replaced([o.prelu(a, o.constant(slope))], a), x)
    assert_same_bits(got, hu.prelu(x, slope[:, None]))


def test_broadcasting_with_sizes_that_are_not_known() -> None:
    x, y = np.float32([[[2]], [[3]]]), np.float32([[1, 2, 0.5]])
    a, b = parameter("f32", -1, -1, -1), parameter("f32", -1, -1)
    model = replaced([o.power(a, b)], a, b)
    assert_same_bits(answer(model, x, y), hu.pow(x, y))
    model.reshape({0: [2, 1, 1], 1: [1, 3]})
    assert tuple(model.output(0).shape) == (2, 1, 3)


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_a_model_from_a_file(suffix: str, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 15]>
        g (float[N, 3] x, float[3] slope) => (float[N, 3] z) {
            half = Constant <value = float {0.3}> ()
            e = Exp(x)
            p = Pow(e, half)
            n = Neg(p)
            z = PRelu(n, slope)
        }"""
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    model = ov.Core().read_model(tmp_path / "m.onnx")
    if suffix == "xml":
        ov.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
        model = ov.Core().read_model(tmp_path / "m.xml")
    names = [(end.get_any_name(), end.get_node().get_friendly_name()) for end in model.outputs]
    x, slope = np.zeros((2, 3), np.float32), np.float32([0.1, 0.2, 0.7])
    assert plugin.replace(model) is model
    assert [(end.get_any_name(), end.get_node().get_friendly_name()) for end in model.outputs] == names
    kinds = {node.get_type_name() for node in model.get_ordered_ops()}
    assert {"HalfulpPower", "HalfulpPReLU"} <= kinds
    assert not {"Power", "PRelu"} & kinds
    assert_same_bits(answer(model, x, slope), hu.prelu(-hu.pow(np.ones_like(x), np.float32(0.3)), slope))


def test_bodies_of_a_condition() -> None:
    choice, x = o.parameter([], np.bool_), parameter("f32", 3)
    then, other = parameter("f32", 3), parameter("f32", 3)
    bodies = [
        ov.Model([o.power(then, np.float32(0.3))], [then]),
        ov.Model([o.prelu(other, np.float32([0.3]))], [other]),
    ]
    node = o.if_op(choice)
    node.set_then_body(bodies[0])
    node.set_else_body(bodies[1])
    node.set_input(x.output(0), then, other)
    out = node.set_output(bodies[0].results[0], bodies[1].results[0])
    compiled = ov.Core().compile_model(replaced([out], choice, x), "CPU", F32)
    v = np.float32([0.1, -2, 7])
    assert_same_bits(compiled([np.array(True), v])[0], hu.pow(v, np.float32(0.3)))
    assert_same_bits(compiled([np.array(False), v])[0], hu.prelu(v, np.float32(0.3)))


# Types that the plugin narrows.

NUMBERS = np.array([[1e300, 1 / 3], [np.inf, 5e-324]])


@wide
def test_wide_tensors_pass_what_moves_them_and_constants() -> None:
    x = parameter("f64", 2, 2)
    turned = o.transpose(x, np.array([1, 0]))
    moved = o.reshape(o.constant(np.array([[1.0, 3], [1, 1]])), np.array([4]), False)
    power = o.power(o.reshape(turned, np.array([4]), False), moved)
    got = answer(replaced([o.unsqueeze(power, np.array([0]))], x), NUMBERS)
    assert_same_bits(got, hu.pow(NUMBERS.T.reshape(1, 4), np.array([1.0, 3, 1, 1])))


@wide
@pytest.mark.parametrize("kind", ["i64", "u64"])
def test_wide_integers_pass_what_moves_them(kind: str) -> None:
    x = parameter(kind, 2, 2)
    numbers = np.array([[2**62 + 1, 3], [2**40, 7]], operators.ROWS[kind].dtype)
    moved = o.squeeze(o.unsqueeze(o.transpose(x, np.array([1, 0])), np.array([0])), np.array([0]))
    got = answer(replaced([o.power(moved, o.constant(numbers[0, 1]))], x), numbers)
    assert_same_bits(got, numbers.T**3)


@wide
def test_a_power_of_constants_is_exact() -> None:
    x = parameter("f64", 2, 2)
    third = o.power(np.float64(3), np.float64(-1))
    assert_same_bits(answer(replaced([o.power(x, third)], x), NUMBERS), hu.pow(NUMBERS, 1 / 3))


@wide
def test_a_tensor_with_several_readers() -> None:
    x = parameter("f64", 2, 2)
    inner = o.power(x, np.float64(0.5))
    model = replaced([o.power(inner, x), o.power(inner, inner), o.shape_of(x)], x)
    results = ov.Core().compile_model(model, "CPU", F32)([NUMBERS])
    root = hu.pow(NUMBERS, 0.5)
    assert_same_bits(results[0], hu.pow(root, NUMBERS))
    assert_same_bits(results[1], hu.pow(root, root))


@wide
@pytest.mark.filterwarnings("error")
def test_converts_round_once_and_keep_infinities() -> None:
    x = parameter("f32", 3)
    values = np.float32([np.inf, 3e38, -1e-45])
    got = answer(replaced([o.power(o.convert(x, "f64"), np.float64(3))], x), values)
    assert_same_bits(got, hu.pow(values.astype(np.float64), 3.0))
    x = parameter("f64", 2, 2)
    got = answer(replaced([o.convert(o.power(x, np.float64(1)), "f32")], x), NUMBERS)
    assert_same_bits(got, np.float32([[np.inf, 1 / 3], [np.inf, 0]]))


@wide
def test_an_exponent_that_is_converted_from_i64_does_not_wrap() -> None:
    x, y = parameter("f32", 3), parameter("i64", 3)
    exponents = np.array([2**32, 2**40, -(2**33)])
    got = answer(replaced([o.power(x, o.convert(y, "f32"))], x, y), np.float32([2, -1, 2]), exponents)
    assert_same_bits(got, np.float32([np.inf, 1, 0]))


def left_to_openvino(outputs: list[Any], *parameters: Any, match: str) -> Any:
    """Return a model of which replace says why no node of it becomes halfulp's."""
    with pytest.warns(UserWarning, match=rf"stays OpenVINO's own: .*{match}"):
        model = replaced(outputs, *parameters)
    assert not any("Halfulp" in kind for kind in kinds(model))
    return model


@wide
@pytest.mark.parametrize("side", ["before", "after", "beside"])
def test_a_neighbour_that_narrows_is_named(side: str) -> None:
    x = parameter("f64", 2)
    add = o.add(x, x)
    add.set_friendly_name("sum")
    power = o.power(add if side == "before" else x, np.float64(3))
    outputs = [power, add]
    if side == "after":
        outputs = [o.multiply(power, x, name="sum")]
    model = left_to_openvino(outputs, x, match=r"f64 (comes from|goes to) 'sum'")
    own = ov.Core().compile_model(ov.Model(outputs, [x]).clone(), "CPU", F32)([NUMBERS[0]])
    assert_same_bits(answer(model, NUMBERS[0]), own[0])


@wide
@pytest.mark.parametrize("kind", ["i64", "u64"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_integers_go_from_one_of_ours_to_the_next(kind: str, dynamic: bool, tmp_path: Path) -> None:
    dtype = operators.ROWS[kind].dtype
    x, y = parameter(kind, -1 if dynamic else 3, 2), parameter("f32", 2)
    first = o.power(x, o.constant(np.array(3, dtype)))
    second = o.power(first, o.convert(y, kind))
    first.output(0).set_names({"cube"})
    outputs = [first, second, o.add(o.convert(second, "f32"), np.float32(0)), o.power(second, second)]
    numbers, exponents = np.array([[3, 2**31], [-5 % 2**32, 2**40], [7, 1]], dtype), np.float32([2, 1])
    cube = hu.pow(numbers, dtype.type(3))
    last = hu.pow(cube, exponents.astype(dtype))
    model = replaced(outputs, x, y)
    ov.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    core = ov.Core()
    for operator in plugin.OPERATORS:
        core.add_extension(operator)
    for each in (model, core.read_model(tmp_path / "m.xml")):
        results = core.compile_model(each, "CPU", F32)([numbers, exponents])
        assert_same_bits(results["cube"], cube)
        assert_same_bits(results[1], last)
        assert_same_bits(results[2], last.astype(np.float32))
        assert_same_bits(results[3], hu.pow(last, last))


@wide
@pytest.mark.parametrize("kind", ["i64", "u64"])
@pytest.mark.parametrize("to", ["mover", "shape"])
def test_an_integer_result_that_goes_elsewhere_stays(kind: str, to: str) -> None:
    # The plugin converts it to i32 on its way there.
    x = parameter(kind, 2)
    power = o.power(x, o.constant(np.array(2, operators.ROWS[kind].dtype)))
    power.set_friendly_name("first")
    follower = o.reshape(power, np.array([2, 1]), False) if to == "mover" else o.shape_of(power)
    model = left_to_openvino([follower], x, match="goes from 'first'")
    expected = [9, 4] if to == "mover" else [2]
    assert answer(model, np.array([3, 2], operators.ROWS[kind].dtype)).ravel().tolist() == expected


@wide
def test_constants_that_could_not_keep_their_type_stay() -> None:
    left_to_openvino([o.power(o.constant(np.array([1e300])), np.float64(1))], match="constant output")
    x, shape = parameter("f64", 2), parameter("i64", 1)
    moved = o.reshape(o.constant(np.array([[1e300], [2]])), shape, False)
    left_to_openvino([o.power(x, moved)], x, shape, match="moves by other inputs")


@wide
def test_a_body_with_wide_tensors_stays() -> None:
    choice, x, inner, other = o.parameter([], np.bool_), *(parameter("f64", 2) for _ in range(3))
    then, otherwise = ov.Model([o.power(inner, inner)], [inner]), ov.Model([other], [other])
    node = o.if_op(choice)
    node.set_then_body(then)
    node.set_else_body(otherwise)
    node.set_input(x.output(0), inner, other)
    out = node.set_output(then.results[0], otherwise.results[0])
    left_to_openvino([out], choice, x, match="in a body")


def test_a_size_that_reshapes_and_is_raised_to_a_power() -> None:
    """What torch's older exporter makes of ``head_dim ** 0.5``: the size is OpenVINO's, the power is halfulp's."""
    x = parameter("f32", -1, 12)
    last = o.gather(o.shape_of(x), o.constant(np.array([1])), o.constant(np.array(0)))
    size = o.convert(o.divide(last, o.constant(np.array([4]))), "i64")
    root = o.power(o.convert(size, "f32", name="size"), np.float32(0.5))
    pattern = o.concat([o.constant(np.array([-1])), size], 0)
    with pytest.warns(UserWarning, match=r"'size' \(Convert\) stays .* a tensor of i64 comes from"):
        model = replaced([o.multiply(o.reshape(x, pattern, False), root)], x)
    assert "HalfulpPower" in kinds(model)
    values = np.arange(24, dtype=np.float32).reshape(2, 12)
    assert_same_bits(answer(model, values), values.reshape(-1, 3) * hu.pow(np.float32(3), np.float32(0.5)))


@wide
def test_what_some_tensors_cannot_keep_costs_no_other_node() -> None:
    x, y = parameter("f64", 2), parameter("i64", 2)
    kept, lost = o.power(x, o.constant(0.3)), o.power(y, o.constant(np.array(2)))
    lost.set_friendly_name("lost")
    floats = o.power(o.convert(o.add(y, y), "f32"), np.float32(0.3))
    model = ov.Model([kept, o.add(lost, y), floats], [x, y])
    left = plugin.put_into(model)
    assert len(left) == 2
    assert any(line.startswith("'lost' (Power) stays OpenVINO's own: a tensor of i64 goes") for line in left)
    results = ov.Core().compile_model(model, "CPU", F32)([NUMBERS[1], np.array([3, 5])])
    assert_same_bits(results[0], hu.pow(NUMBERS[1], 0.3))
    assert results[1].tolist() == [12, 30]
    assert_same_bits(results[2], hu.pow(np.float32([6, 10]), np.float32(0.3)))


def test_a_type_that_halfulp_lacks_stays() -> None:
    x = parameter("f32", 2)
    rows = {name: row for name, row in operators.ROWS.items() if name != "f32"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "ROWS", rows)
        left_to_openvino([o.power(x, x)], x, match="halfulp has no type f32")


@wide
def test_a_device_that_loses_the_mark_raises() -> None:
    x = parameter("f64", 2, 2)
    model = replaced([o.power(x, x)], x)
    with pytest.raises(RuntimeError, match="a type that the model does not declare"):
        answer(model, NUMBERS, device="HETERO:CPU")


def test_a_version_that_keeps_no_wide_type(monkeypatch: pytest.MonkeyPatch) -> None:
    operators.keeps_wide_types.cache_clear()
    monkeypatch.setattr(operators, "_attribute", lambda: None)
    try:
        x = parameter("u64", 2)
        left_to_openvino([o.power(x, x)], x, match="2026")
        x = parameter("i32", 2)
        assert answer(replaced([o.power(x, x)], x), np.int32([3, -2])).tolist() == [27, 0]
    finally:
        operators.keeps_wide_types.cache_clear()


# The rest.


def test_a_node_that_breaks_a_clause_is_named() -> None:
    x = parameter("i32", 2)
    node = o.prelu(x, np.int32([2]))
    node.set_friendly_name("leak")
    with pytest.raises(ModelError, match=r"node 'leak' \(PRelu\), openvino.PReLU-1.C3"):
        replaced([node], x)


@pytest.mark.parametrize("kind", ["f32", pytest.param("f64", marks=wide)])
def test_saved_and_read_back(kind: str, tmp_path: Path) -> None:
    dtype = operators.ROWS[kind].dtype
    x = parameter(kind, 3)
    ov.save_model(
        replaced([o.power(x, o.constant(dtype.type(0.3)))], x), tmp_path / "m.xml", compress_to_fp16=False
    )
    core = ov.Core()
    for operator in plugin.OPERATORS:
        core.add_extension(operator)
    values = np.array([1e30, 2, 1 / 3], dtype)
    got = core.compile_model(core.read_model(tmp_path / "m.xml"), "CPU", F32)([values])[0]
    assert_same_bits(got, hu.pow(values, dtype.type(0.3)))


def test_the_host_may_flush_denormals() -> None:
    x = parameter("f32", 2)
    model = plugin.replace(ov.Model([o.power(x, np.float32(1))], [x]), every_node=True)
    values = np.float32([1e-45, -3e-39])
    (got,) = (
        ov.Core().compile_model(model, "CPU", F32 | {"CPU_DENORMALS_OPTIMIZATION": True})([values]).values()
    )
    assert_same_bits(got, values)


def kinds(model: Any) -> set[str]:
    return {node.get_type_name() for node in model.get_ordered_ops()}


@pytest.mark.parametrize("convolved", [False, True])
@pytest.mark.parametrize(
    "what", ["-1", "0", "1", "2", "one slope", "slope by channel", "negative slope by channel"]
)
def test_what_the_plugin_computes_exactly_stays_its_own(what: str, convolved: bool) -> None:
    random = np.random.default_rng(12)
    shape = (3, 24, 6, 11)
    signs = random.choice(np.float32([-1, 1]), shape)
    x = np.exp2(random.uniform(-149, 127, shape)).astype(np.float32) * signs
    if not convolved:
        x.flat[::7] = np.resize(np.float32([0, -0.0, np.inf, -np.inf, np.nan]), x.flat[::7].size)
    a = parameter("f32", -1, 24, -1, -1)
    weights = np.eye(24, dtype=np.float32).reshape(24, 24, 1, 1)
    base = o.convolution(a, weights, [1, 1], [0, 0], [0, 0], [1, 1]) if convolved else a
    if "slope" in what:
        slope = random.uniform(-3 if "negative" in what else 0, 3, (24, 1, 1) if "channel" in what else 1)
        slope = slope.astype(np.float32)
        node, right, operator = o.prelu(base, slope), hu.prelu(x, slope), "PRelu"
    else:
        node, right, operator = o.power(base, np.float32(what)), hu.pow(x, np.float32(what)), "Power"
    model = replaced([node], a)
    if "negative" not in what:  # there it depends on the processor
        assert kinds(model) & {"PRelu", "Power", "HalfulpPReLU", "HalfulpPower"} == {operator}
    got = answer(model, x)
    numbers = ~np.isnan(right)
    assert_same_bits(got[numbers], right[numbers])
    assert np.isnan(got[~numbers]).all()
    every = plugin.replace(ov.Model([o.relu(node)], [a]), every_node=True)
    assert kinds(every) & {"PRelu", "Power"} == set()


def test_what_the_plugin_gets_wrong_does_not_stay() -> None:
    x, halves = parameter("f32", 2, 3, 4), parameter("f16", 2, 3, 4)
    unknown = o.parameter(ov.PartialShape.dynamic(), ov.Type.f32)
    nodes = [
        o.power(x, np.float32(2.5)),
        o.power(x, x),
        o.power(x, np.full((1, 1, 1, 1), 2, np.float32)),  # has a dim more than the base
        o.power(halves, np.float16(2)),
        o.power(unknown, np.float32(2)),
        o.power(o.constant(np.full((2, 3, 4), 1.1, np.float32)), np.float32(2)),  # folded by other code
        o.prelu(x, np.float32([1e-40])),  # taken for zero
        o.prelu(x, np.float32([np.inf])),
        o.prelu(x, np.float32([1, 2, 3, 4])),  # along the last dim
        o.prelu(halves, np.float16([0.5])),
    ]
    model = replaced(nodes, x, halves, unknown)
    assert kinds(model) & {"Power", "PRelu"} == set()
    assert sum("Halfulp" in node.get_type_name() for node in model.get_ordered_ops()) == len(nodes)


def test_a_version_that_fails_the_trial_keeps_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that rounds otherwise: what it gives is what ours gives for other operands."""
    monkeypatch.setattr(plugin, "op", lambda name: lambda x, y: hu.op(name)(x, y) * np.float32(1 + 2**-23))
    plugin._passes_trial.cache_clear()
    try:
        x = parameter("f32", 2, 3)
        model = replaced([o.power(x, np.float32(2)), o.prelu(x, np.float32([0.5]))], x)
    finally:
        plugin._passes_trial.cache_clear()
    assert {"HalfulpPower", "HalfulpPReLU"} <= kinds(model)


SIGNALLED = """
import signal
import numpy as np
import openvino as ov
from openvino import opset13 as o
from halfulp.integrations.openvino.engine import Compiled

def model():
    x = o.parameter([3], np.float32)
    return ov.Model([o.power(x, x)], [x])

signal.signal(signal.SIGTERM, lambda *_: print("handled"))
first, second = Compiled(model(), "a"), Compiled(model(), "b")
del first
signal.raise_signal(signal.SIGTERM)
del second
signal.raise_signal(signal.SIGTERM)
"""


def test_a_signal_after_models_that_ended_in_the_order_they_began(python: Callable[..., str]) -> None:
    """The plugin's stack for signals is still there."""
    assert python(SIGNALLED).split() == ["handled", "handled"]


def test_replace_takes_a_model() -> None:
    with pytest.raises(hu.HalfulpError, match=r"replace takes an openvino\.Model; .*read_model"):
        plugin.replace("net.xml")
