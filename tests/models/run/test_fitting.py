"""Inputs that are made up for networks that do not say which sizes they take."""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from tests.models.onnx_models import parsed, run

from halfulp.errors import ModelError, UnsupportedError
from halfulp.models.graph import Array, Model
from halfulp.models.onnx import load
from halfulp.models.run.inputs import fit, make_up
from halfulp.running import evaluate


def model_of(text: str, opset: int = 17) -> Model:
    return load(parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}'))


def sizes(model: Model, **dims: int) -> Mapping[str, int]:
    return fit(model, partial(run, model), dims=dims).dims


CONVOLUTION = """g (float[N, C, H, W] x, float[8, 3, 19, 19] w) => (float[N, 8, P, Q] y) { y = Conv(x, w) }"""


def convolution() -> Model:
    proto = parsed(f"17: {CONVOLUTION}")
    weights = np.ones((8, 3, 19, 19), np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    del proto.graph.input[1]
    return load(proto)


@pytest.mark.parametrize(
    ("inputs", "sizes"),
    [
        ("float[N] x", {"N": 3}),
        ("float[N, C] x", {"N": 1, "C": 512}),
        ("int64[N, T] x", {"N": 1, "T": 3}),
        ("float[N, C, H, W] x", {"N": 1, "C": 3, "H": 64, "W": 64}),
        ("float[N, H, W, 3] x", {"N": 1, "H": 64, "W": 64}),
        ("float[2, ?, 4] x", {"x[1]": 1}),
        ("float[N, T, 4] x, float[batch_size] length", {"N": 1, "T": 3, "batch_size": 3}),
    ],
)
def test_usual_sizes(inputs, sizes):
    model = model_of(f"g ({inputs}) => (float y) {{ y = Constant<value_float=1.0>() }}")
    assert make_up(model).dims == sizes


@pytest.mark.parametrize(
    ("node", "weights", "dims"),
    [
        ("Conv(x, w)", (8, 5, 3, 3), {"B": 5}),
        ("Conv<group=2>(x, w)", (8, 5, 3, 3), {"B": 10}),
        ("MatMul(x, w)", (7, 9), {"D": 7}),
        ("Add(x, w)", (6, 1, 5), {"B": 6, "D": 5}),
        ("PRelu(x, w)", (6, 1, 1), {"B": 6}),
        ("BatchNormalization(x, w, w, w, w)", (9,), {"B": 9}),
    ],
)
def test_sizes_that_constants_force(node, weights, dims):
    text = f"g (float[A, B, C, D] x) => (float[P, Q, R, S] y) {{ c = Clip(x)  x1 = Relu(c)  y = {node} }}"
    proto = parsed(f"17: {text.replace('(x,', '(x1,')}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(weights, np.float32), "w"))
    model: Model = load(proto)
    assert fit(model, partial(run, model)).dims.items() >= dims.items()


def test_channels_are_those_of_the_first_weights():
    """Among those of many: 80 bands of a spectrum, scaled and padded before the first convolution."""
    channels = [80, 2, 4, 5, 6, 7, 9, 10, 11, 12, 13]
    pads = np.array([0, 0, 1, 0, 0, 1])
    nodes = [
        onnx.helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        onnx.helper.make_node("Pad", ["scaled", "pads"], ["c0"]),
    ]
    constants = {"scale": np.ones(1, np.float32), "pads": pads}
    for index, (of, to) in enumerate(pairwise(channels)):
        nodes.append(onnx.helper.make_node("Conv", [f"c{index}", f"w{index}"], [f"c{index + 1}"]))
        constants[f"w{index}"] = np.ones((to, of, 1), np.float32)
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", "bands", "T"])],
        [onnx.helper.make_tensor_value_info("c10", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    model: Model = load(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8))
    found = fit(model, partial(run, model))
    assert str(found) == "dims made up: N=1, bands=80, T=64; -i DIM=N changes one"


def test_a_sampling_rate_is_what_it_is_compared_with():
    model = model_of(
        """g (float[N] x, int64 rate) => (float[N] y)
        { r = Constant<value_int=16000>()  c = Equal(rate, r)
          y = If (c) <then_branch = a () => (float[N] p) { p = Exp(x) },
                      else_branch = b () => (float[M] q) { q = Gather(x, rate) }> }"""
    )
    found = fit(model, partial(run, model))
    assert found.inputs(model, 0)["rate"] == 16000


@pytest.mark.parametrize("rows", [2, 40])
def test_an_index_is_a_row_of_its_table(rows):
    text = "g (int64[N] i) => (float[N, 2] y) { t = ConstantOfShape(s)  y = Gather(t, i) }"
    proto = parsed(f"17: {text}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([rows, 2]), "s"))
    model: Model = load(proto)
    index = fit(model, partial(run, model)).inputs(model, 3)["i"]
    assert run(model, {"i": index})["y"].shape == (3, 2)


def test_an_error_names_the_sizes_that_were_made_up():
    model = model_of(
        "g (float[N, C] x) => (float[K, L] y) { f = Constant<value_ints=[7, -1]>()  y = Reshape(x, f) }"
    )
    words = r"node #1 \(Reshape\): .*; dims made up: C=512; -i DIM=N changes one, -i NAME=FILE gives an input"
    with pytest.raises(ModelError, match=words):
        evaluate(model, "random", "halfulp", dims={"N": 1})
    assert evaluate(model, "random", dims={"C": 14}).outputs["y"].shape == (7, 2)


def test_an_operator_that_nothing_evaluates_is_said_at_once():
    trials = []

    def refuse(inputs: Mapping[str, Array]) -> Any:
        trials.append(inputs)
        raise UnsupportedError("nothing evaluates it")

    with pytest.raises(UnsupportedError, match="nothing evaluates it"):
        fit(convolution(), refuse)
    assert len(trials) == 1


def test_running_without_inputs():
    model = model_of(
        "g (float[N, C] x) => (float[R, 8] y) { s = Constant<value_ints=[-1, 8]>()  y = Reshape(x, s) }"
    )
    outputs = evaluate(model, "random").outputs
    assert outputs["y"].shape == (64, 8)
    assert outputs.inputs["x"].shape == (1, 512)
    assert evaluate(model, "random", dims={"N": 4, "C": 8}, seed=3).outputs["y"].shape == (4, 8)
    with pytest.raises(
        ModelError, match=r"pass {'x': array}, or 'random' .*\n  expected: x: float32\[N, C\]"
    ):
        evaluate(model, None)
    with pytest.raises(ModelError, match=r"no value is given for its input 'x': pass {'x': array}"):
        evaluate(model, {})


MASK = """g (float[B, S] x, {kind}[B, S] {name}) => (float[B, S] y) {{
    m = Cast<to=1>({name})  one = Constant<value_float=1.0>()  low = Constant<value_float=-3.4028235e38>()
    i = Sub(one, m)  b = Mul(i, low)  l = Add(x, b)  s = Softmax(l)  y = Pow(s, one) }}"""


@pytest.mark.parametrize(
    ("kind", "name"), [("int64", "attention_mask"), ("bool", "mask"), ("int32", "other")]
)
@pytest.mark.parametrize("seed", range(4))
def test_a_mask_has_1(kind, name, seed):
    """By its name, or since it is taken from 1."""
    model = model_of(MASK.format(kind=kind, name=name))
    inputs = make_up(model).inputs(model, seed)
    assert (inputs[name] == 1).all()
    assert np.isfinite(run(model, inputs)["y"]).all()
