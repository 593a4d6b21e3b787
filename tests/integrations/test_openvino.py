"""OpenVINO on our operators: the bits of hu.op in every type, and an error wherever a type would be narrowed."""

import gc
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
operators = plugin

KINDS = [kind for kind in operators.ROWS if kind not in operators.WIDE]
F32 = {"INFERENCE_PRECISION_HINT": "f32"}


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
def test_powers_of_every_type(kind, dynamic):
    name = operators.ROWS[kind].name
    grid = pow_grid(name, name, np.random.default_rng(6))
    x, y = (np.concatenate([getattr(part, side) for part in grid]) for side in "xy")
    a, b = (parameter(kind, -1 if dynamic else x.size) for _ in range(2))
    assert_same_bits(answer(replaced([o.power(a, b)], a, b), x, y), hu.pow(x, y))


@pytest.mark.newer
@pytest.mark.parametrize("kind", [kind for kind in KINDS if operators.ROWS[kind].kind == "float"])
def test_prelu_of_every_type(kind):
    name = operators.ROWS[kind].name
    grid = prelu_grid(name, np.random.default_rng(7))
    x, slope = (np.concatenate([getattr(part, side) for part in grid]) for side in "xy")
    a, b = parameter(kind, 1, x.size), parameter(kind, x.size)
    assert_same_bits(answer(replaced([o.prelu(a, b)], a, b), x[None], slope), hu.prelu(x[None], slope))


@pytest.mark.parametrize("kind", ["f16", "bf16", "i16", "u16", "u32"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_type_that_is_held_in_a_wider_one_meets_other_operators(kind, dynamic):
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


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_a_slope_of_rank_1_goes_to_the_channels(kind):
    dtype = operators.ROWS[kind].dtype
    x = np.random.default_rng(8).normal(size=(2, 3, 3)).astype(dtype)
    slope = np.array([0.1, 0.2, 0.3], dtype)
    a = parameter(kind, -1, 3, -1)
    got = answer(replaced([o.prelu(a, o.constant(slope))], a), x)
    assert_same_bits(got, hu.prelu(x, slope[:, None]))


def test_broadcasting_with_sizes_that_are_not_known():
    x, y = np.float32([[[2]], [[3]]]), np.float32([[1, 2, 0.5]])
    a, b = parameter("f32", -1, -1, -1), parameter("f32", -1, -1)
    model = replaced([o.power(a, b)], a, b)
    assert_same_bits(answer(model, x, y), hu.pow(x, y))
    model.reshape({0: [2, 1, 1], 1: [1, 3]})
    assert tuple(model.output(0).shape) == (2, 1, 3)


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_a_model_from_a_file(suffix, tmp_path):
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


def test_bodies_of_a_condition():
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


def left_to_openvino(outputs: list[Any], *parameters: Any, match: str) -> None:
    """Assert that replace says why no node of a model becomes halfulp's."""
    with pytest.warns(UserWarning, match=rf"stays OpenVINO's own: .*{match}"):
        model = replaced(outputs, *parameters)
    assert not any("Halfulp" in kind for kind in kinds(model))


@pytest.mark.parametrize(
    ("kind", "narrow"),
    [("f64", "f32"), ("i64", "i32"), pytest.param("u64", "i32", marks=pytest.mark.exhaustive)],
)
def test_wide_types_stay_openvinos_own(kind, narrow, tmp_path):
    """hu.run computes them node by node; beside a layer that only OpenVINO has, it refuses them."""
    x = parameter(kind, 2)
    power = o.power(x, x, name="square")
    left_to_openvino([power], x, match=f"the CPU plugin computes {kind} in {narrow}")
    if kind == "f64":  # a constant, too, which is no size
        three = o.constant(np.array([3.0]))
        left_to_openvino([o.power(three, three)], match="computes f64 in f32")
    values = np.array([3, 20], operators.ROWS[kind].dtype)
    for name, result in (("alone", power), ("beside", o.sqrt(o.convert(power, "f32")))):
        ov.save_model(ov.Model([result], [x]), tmp_path / f"{name}.xml", compress_to_fp16=False)
    (output,) = hu.run(tmp_path / "alone.xml", {x.friendly_name: values}).values()
    assert_same_bits(output, hu.pow(values, values))
    with pytest.raises(
        hu.UnsupportedError, match=rf"not exact in openvino.*'square' \(Power\).*computes {kind}"
    ):
        hu.run(tmp_path / "beside.xml", {x.friendly_name: values})


def test_a_size_that_is_raised_to_a_power():
    """What torch's older exporter makes of ``head_dim ** 0.5``: the size is OpenVINO's, the power is halfulp's."""
    x = parameter("f32", -1, 12)
    last = o.gather(o.shape_of(x), o.constant(np.array([1])), o.constant(np.array(0)))
    size = o.convert(o.divide(last, o.constant(np.array([4]))), "i64")
    root = o.power(o.convert(size, "f32", name="size"), np.float32(0.5))
    square = o.power(size, o.constant(np.array(2)))  # i32 holds it
    pattern = o.concat([o.constant(np.array([-1])), o.reshape(size, np.array([1]), False)], 0)
    outputs = [o.multiply(o.reshape(x, pattern, False), root), o.convert(square, "i32")]
    model = ov.Model(outputs, [x])
    assert plugin.put_into(model) == []
    assert "HalfulpPower" in kinds(model)
    values = np.arange(24, dtype=np.float32).reshape(2, 12)
    results = ov.Core().compile_model(model, "CPU", F32)([values])
    assert_same_bits(results[0], values.reshape(-1, 3) * hu.pow(np.float32(3), np.float32(0.5)))
    assert results[1].ravel().tolist() == [9]


def test_a_type_that_halfulp_lacks_stays():
    x = parameter("f32", 2)
    rows = {name: row for name, row in operators.ROWS.items() if name != "f32"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "ROWS", rows)
        left_to_openvino([o.power(x, x)], x, match="halfulp has no type f32")


# The rest.


def test_a_node_that_breaks_a_clause_is_named():
    x = parameter("i32", 2)
    node = o.prelu(x, np.int32([2]))
    node.set_friendly_name("leak")
    with pytest.raises(ModelError, match=r"node 'leak' \(PRelu\): .* \(openvino.PReLU-1.C3\)"):
        replaced([node], x)


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_saved_and_read_back(kind, tmp_path):
    dtype = operators.ROWS[kind].dtype
    x = parameter(kind, 3)
    ov.save_model(
        replaced([o.power(x, o.constant(dtype.type(0.3)))], x), tmp_path / "m.xml", compress_to_fp16=False
    )
    core = ov.Core()
    for operator in plugin.OPERATORS:
        core.add_extension(operator)
    values = np.array([1e3, 2, 1 / 3], dtype)
    got = core.compile_model(core.read_model(tmp_path / "m.xml"), "CPU", F32)([values])[0]
    assert_same_bits(got, hu.pow(values, dtype.type(0.3)))


def test_the_host_may_flush_denormals():
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
def test_what_the_plugin_computes_exactly_stays_its_own(what, convolved):
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


def test_what_the_plugin_gets_wrong_does_not_stay():
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


def test_means_in_norms_keep_their_dims():
    x = parameter("f32", 3, 3)
    square = o.power(x, np.float32(2))
    for node, is_written in (
        (o.reduce_mean(square, o.constant([1]), False), True),
        (o.reduce_mean(o.multiply(x, x), o.constant([1]), False), True),
        (o.subtract(x, o.reduce_mean(x, o.constant([1]), False)), True),
        (o.reduce_mean(x, o.constant([1]), False), False),
        (o.reduce_mean(square, o.constant([1]), True), False),
    ):
        assert ("Squeeze" in kinds(replaced([node], x))) is is_written


@pytest.mark.parametrize(("sums", "stays"), [(1, False), (9, True)])
def test_what_enlarges_a_norm_is_near_its_power(sums, stays):
    """Powers in a chain are not each the start of a walk to its end."""
    x = parameter("f32", 3, 1)
    node = o.power(x, np.float32(2))
    for _ in range(sums):
        node = o.add(node, np.float32(1))
    enlarged = o.multiply(node, np.ones((3, 4), np.float32))
    assert ("Power" in kinds(replaced([enlarged], x))) is stays


def test_inputs_that_keep_their_type_have_a_mark():
    """Those in halves that only halfulp's operators read, in any place if their result goes no further."""
    for kind, outputs_of, is_marked in (
        ("f16", lambda x, y: [o.power(x, y)], True),
        ("f32", lambda x, y: [o.power(x, y)], False),
        ("f16", lambda x, y: [o.power(x, y), x], True),
        ("f16", lambda x, y: [o.power(x, y), o.abs(x)], False),
        ("f16", lambda x, y: [o.abs(o.power(x, y))], False),
        ("f16", lambda x, y: [o.abs(o.power(y, x))], True),
    ):
        x, y = parameter(kind, 2), parameter(kind, 2)
        replaced(outputs_of(x, y), x, y)
        assert (plugin._MARK in [*x.get_rt_info().keys()]) is is_marked
    x = power = parameter("f16", 2)
    for _ in range(1500):  # more than calls may nest
        power = o.power(power, np.float16(1.5))
    replaced([power], x)
    assert plugin._MARK in [*x.get_rt_info().keys()]


def test_an_operator_of_others_called_power_stays():
    class Power(operators.HalfulpPower):  # type: ignore[name-defined,misc]
        pass

    x = parameter("f32", 2)
    power = Power([x.output(0), x.output(0)], operands="f32,f32", auto_broadcast="numpy")
    assert "Power" in kinds(replaced([power], x))


def test_types_that_a_tensor_may_have():
    for kind in ("i4", "u4"):
        values = np.array([7, 1, 3 if kind == "u4" else -8]).astype(operators.ROWS[kind].dtype)
        assert_same_bits(operators.array_of(operators.tensor_of(values)), values)
    x = parameter("f32", 2)
    power = operators.HalfulpPower([x.output(0), x.output(0)], operands="f32,f32", auto_broadcast="numpy")
    power._check_held("f32", "bf16")
    with pytest.raises(hu.UnsupportedError, match=r"a type that the model does not declare;(.|\n)*got: f16"):
        power._check_held("f16", "f32")
    for dtype in (row.dtype for row in hu.types.TYPES.values() if row.openvino is None):
        with pytest.raises(hu.UnsupportedError, match="OpenVINO has no type"):
            operators.tensor_of(np.zeros(1, dtype))


@pytest.mark.parametrize("wrong", [{"Power", "PReLU"}, {"Power"}, {"PReLU"}])
def test_a_version_that_fails_the_trial_keeps_no_node(wrong, monkeypatch):
    """A plugin that rounds otherwise: what it gives is what ours gives for other operands."""

    def op(row: str) -> Any:
        factor = np.float32(1 + 2**-23 * (row[9:-2] in wrong))
        return lambda x, y: hu.op(row)(x, y) * factor

    monkeypatch.setattr(plugin, "op", op)
    plugin._passes_trial.cache_clear()
    try:
        x = parameter("f32", 2, 3)
        model = replaced([o.power(x, np.float32(2)), o.prelu(x, np.float32([0.5]))], x)
    finally:
        plugin._passes_trial.cache_clear()
    assert {kind for kind in ("Power", "PReLU") if f"Halfulp{kind}" in kinds(model)} == wrong


def test_the_slopes_of_a_trial(monkeypatch):
    """Without AVX-512, the plugin does not keep the sign of a zero with a negative slope."""
    trials: list[Any] = []
    monkeypatch.setattr(plugin, "_passes_trial", lambda *trial: trials.append(trial))
    x = parameter("f32", 2, 3)
    replaced([o.prelu(x, np.float32([0, 1, 2])), o.prelu(x, np.float32([0, 1, -2]))], x)
    assert sorted(trials) == [("PRelu", -2), ("PRelu", 0)]
    line = parameter("f32", 4)
    replaced([o.prelu(line, np.float32([0, 1, 2, 3]))], line)
    assert len(trials) == 2


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


def test_a_signal_after_models_that_ended_in_the_order_they_began(python):
    """The plugin's stack for signals is still there."""
    assert python(SIGNALLED).split() == ["handled", "handled"]


def test_operators_that_are_not_built(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    operators._factory.cache_clear()
    x = parameter("f32", 2)
    assert "HalfulpPower" in kinds(replaced([o.power(x, x)], x))
    operators._factory.cache_clear()


def test_replace_takes_a_model():
    with pytest.raises(hu.HalfulpError, match=r"replace takes an openvino\.Model; .*read_model"):
        plugin.replace("net.xml")
