"""Inputs that are made up for networks that do not say which sizes they take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import halfulp as hu
from halfulp.errors import HalfulpError, ModelError, UnsupportedError
from halfulp.models.graph import Array, Model
from halfulp.models.onnx import load
from halfulp.models.run import fitting
from halfulp.models.run.api import run
from halfulp.models.run.fitting import SIZES, _by_product, fit


def model_of(text: str, opset: int = 17) -> Model:
    return load(parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}'))  # type: ignore[return-value]


def sizes(model: Model, **dims: int) -> Mapping[str, int]:
    return fit(model, partial(run, model), dims=dims).dims


CONVOLUTION = """g (float[N, C, H, W] x, float[8, 3, 19, 19] w) => (float[N, 8, P, Q] y) { y = Conv(x, w) }"""


def convolution() -> Model:
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {CONVOLUTION}')
    weights = np.ones((8, 3, 19, 19), np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    del proto.graph.input[1]
    return load(proto)  # type: ignore[return-value]


def test_what_runs_at_once_keeps_the_usual_sizes() -> None:
    assert sizes(model_of("g (float[N, C] x) => (float[N, C] y) { y = Exp(x) }")) == {"N": 3, "C": 3}


def test_an_image_is_larger_than_a_kernel_and_has_its_channels() -> None:
    found = sizes(convolution())
    assert (found["N"], found["C"]) == (1, 3)
    assert min(found["H"], found["W"]) >= 19


def test_channels_are_those_of_the_first_weights() -> None:
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
    model: Model = load(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8))  # type: ignore[assignment]
    found = fit(model, partial(run, model))
    assert str(found) == "dims made up: N=3, bands=80, T=3; -i DIM=N changes one"


def test_sizes_that_are_given_stay() -> None:
    found = sizes(convolution(), H=40, N=2)
    assert (found["N"], found["C"], found["H"]) == (2, 3, 40)
    assert found["W"] >= 19


def test_a_dim_without_a_name() -> None:
    text = """g (float[N, ?] x, float[2, ?, 4] state) => (float[N, 4] y)
        { axes = Constant<value_ints=[0]>()  s = ReduceSum(state, axes)  f = Constant<value_ints=[-1, 4]>()
          r = Reshape(x, f)  t = Squeeze(s)  y = Add(r, t) }"""
    model = model_of(text)
    found = fit(model, partial(run, model))
    assert found.dims["x[1]"] % 4 == 0
    assert str(found).startswith("dims made up: N=1, x[1]=16, state[1]=")
    assert str(found).endswith("; -i DIM=N changes one")
    assert str(fit(model, partial(run, model), dims=found.dims)) == ""


def test_a_sampling_rate_is_what_it_is_compared_with() -> None:
    model = model_of(
        """g (float[N] x, int64 rate) => (float[N] y)
        { r = Constant<value_int=16000>()  c = Equal(rate, r)
          y = If (c) <then_branch = a () => (float[N] p) { p = Exp(x) },
                      else_branch = b () => (float[M] q) { q = Gather(x, rate) }> }"""
    )
    found = fit(model, partial(run, model))
    assert found.inputs(model, 0)["rate"] == 16000


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_an_index_is_a_row_of_its_table(rows: int) -> None:
    text = "g (int64[N] i) => (float[N, 2] y) { t = ConstantOfShape(s)  y = Gather(t, i) }"
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([rows, 2]), "s"))
    model: Model = load(proto)  # type: ignore[assignment]
    index = fit(model, partial(run, model)).inputs(model, 3)["i"]
    assert run(model, {"i": index})["y"].shape == (3, 2)


def test_nothing_fits() -> None:
    model = model_of(
        "g (float[N] x) => (float[N] y) { f = Constant<value_ints=[7, -1]>()  y = Reshape(x, f) }"
    )

    def refuse(inputs: Mapping[str, Array]) -> Any:
        raise HalfulpError("the engine's own sentence, to the end")

    with pytest.raises(ModelError, match=r"-i DIM=N.*-i NAME=FILE.*the engine's own sentence, to the end"):
        fit(model, refuse)


def test_the_error_is_that_of_the_likeliest_sizes() -> None:
    with pytest.raises(ModelError, match=r"The first one \(N=3, C=3, H=2, W=3\): .*Conv"):
        sizes(convolution(), H=2)


def test_one_that_leaves_nothing_open_says_what_went_wrong() -> None:
    model = model_of("g (float[4] x) => (float[4] y) { f = Constant<value_ints=[3]>()  y = Reshape(x, f) }")
    with pytest.raises(ModelError, match="Reshape"):
        fit(model, partial(run, model))


def test_an_operator_that_nothing_evaluates_is_said_at_once() -> None:
    trials = []

    def refuse(inputs: Mapping[str, Array]) -> Any:
        trials.append(inputs)
        raise UnsupportedError("nothing evaluates it")

    with pytest.raises(UnsupportedError, match="nothing evaluates it"):
        fit(convolution(), refuse)
    assert len(trials) == 1


def test_no_trial_is_too_large() -> None:
    seen = []

    def refuse(inputs: Mapping[str, Array]) -> Any:
        seen.append(sum(array.size for array in inputs.values()))
        raise HalfulpError("no")

    with pytest.raises(ModelError):
        fit(model_of("g (float[A, B, C, D] x) => (float[A, B, C, D] y) { y = Exp(x) }"), refuse)
    assert 10 < len(seen) <= 600
    assert max(seen) <= 1 << 22


def test_running_without_inputs() -> None:
    model = model_of(
        "g (float[N, C] x) => (float[R, 8] y) { s = Constant<value_ints=[-1, 8]>()  y = Reshape(x, s) }"
    )
    outputs = hu.run(model, "random")
    assert outputs["y"].shape == (2, 8)
    assert outputs.inputs["x"].size == 16
    assert hu.run(model, "random", dims={"N": 4, "C": 8}, seed=3)["y"].shape == (4, 8)
    with pytest.raises(
        ModelError, match=r"pass {'x': array}, or 'random' .*\n  expected: x: float32\[N, C\]"
    ):
        hu.run(model)
    with pytest.raises(ModelError, match=r"no value is given for its input 'x': pass {'x': array}"):
        hu.run(model, {})


def test_one_dim_among_many() -> None:
    """Six dims of six inputs, of which one has to be 8: the diagonal never has it with the others at 3."""
    text = ", ".join(f"float[{name}] x{name}" for name in "PQRSTU")
    model = model_of(f"g ({text}) => (float[P] y) {{ y = Exp(xP) }}")

    def only(inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        if [len(inputs[f"x{name}"]) for name in "PQRSTU"] != [3, 3, 3, 64, 3, 3]:
            raise HalfulpError("other sizes")
        return {"y": np.arange(3)}

    found = fit(model, only)
    assert found.dims == dict.fromkeys("PQRTU", 3) | {"S": 64}


def test_candidates_are_made_as_they_are_tried() -> None:
    """Of twenty dims there are 9^20 combinations; no more than are tried exist, each once, the cheaper first."""
    sizes = sorted(SIZES)
    names = [f"d{index}" for index in range(20)]
    first = [tuple(chosen.values()) for chosen in islice(_by_product(sizes, names), 2000)]
    costs = [math.prod(chosen) for chosen in first]
    assert len(set(first)) == 2000
    assert costs == sorted(costs)
    few = list(_by_product([1, 2, 5], ["a", "b"]))
    assert len(few) == len({tuple(each.values()) for each in few}) == 9
    assert list(_by_product([1, 2], [])) == []


def test_the_number_of_trials_is_bounded_and_each_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_SECONDS", math.inf)  # however slow this machine is
    text = ", ".join(f"float[{name}] x{name}" for name in "ABCDEFGHI")
    shapes, lines = [], []

    def refuse(inputs: Mapping[str, Array]) -> Any:
        shapes.append(tuple(array.shape for array in inputs.values()))
        raise HalfulpError("no")

    with pytest.raises(ModelError, match=r"runs on none of \d+ sets"):
        fit(model_of(f"g ({text}) => (float[A] y) {{ y = Exp(xA) }}"), refuse, progress=lines.append)
    assert 100 < len(shapes) == len(set(shapes)) == len(lines) <= 600
    assert lines[0] == "trying inputs: A=3, B=3, C=3, D=3, E=3, F=3, G=3, H=3, I=3"


def test_no_trial_begins_after_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_SECONDS", -1.0)
    trials = []

    def refuse(inputs: Mapping[str, Array]) -> Any:
        trials.append(inputs)
        raise HalfulpError("no")

    with pytest.raises(HalfulpError):
        fit(convolution(), refuse)
    assert len(trials) == 1


MASK = """g (float[B, S] x, {kind}[B, S] {name}) => (float[B, S] y) {{
    m = Cast<to=1>({name})  one = Constant<value_float=1.0>()  low = Constant<value_float=-3.4028235e38>()
    i = Sub(one, m)  b = Mul(i, low)  l = Add(x, b)  s = Softmax(l)  y = Pow(s, one) }}"""


@pytest.mark.parametrize(
    ("kind", "name"), [("int64", "attention_mask"), ("bool", "mask"), ("int32", "other")]
)
@pytest.mark.parametrize("seed", range(4))
def test_a_mask_has_0_and_1(kind: str, name: str, seed: int) -> None:
    """By its name, or since it is taken from 1."""
    model = model_of(MASK.format(kind=kind, name=name))
    inputs = fit(model, partial(run, model), seed=seed).inputs(model, seed)
    assert set(np.unique(inputs[name]).tolist()) <= {0, 1}
    assert np.isfinite(run(model, inputs)["y"]).all()


def test_a_mask_that_leaves_nothing() -> None:
    """The softmax of infinities alone is NaN: then the mask has 1 everywhere."""
    text = """g (float[N, S] x, int64[N, S] mask) => (float[N, S] y) {
        one = Constant<value_float=1.0>()  zero = Constant<value_float=0.0>()  low = Div(one, zero)
        neg = Neg(low)  m = Cast<to=9>(mask)  l = Where(m, x, neg)  y = Softmax(l) }"""
    model = model_of(text)
    inputs = fit(model, partial(run, model), dims={"N": 16, "S": 2}).inputs(model, 0)
    assert inputs["mask"].tolist() == [[1, 1]] * 16


def test_values_on_which_the_outputs_are_finite() -> None:
    model = model_of(
        """g (float[N, C] x) => (float[N, 1] y) {
            l = Log(x)  a = Constant<value_ints=[1]>()  y = ReduceSum<keepdims=1>(l, a) }"""
    )
    assert not np.isfinite(run(model, {"x": np.full((2, 3), -1, np.float32)})["y"]).any()
    found = fit(model, partial(run, model), dims={"N": 2, "C": 64})
    assert str(found) == (
        "floats made up: magnitudes of normally distributed ones, since the usual ones give outputs without a finite"
        " number"
    )
    assert np.isfinite(run(model, found.inputs(model, 0))["y"]).all()
    assert (found.inputs(model, 5)["x"] == found.inputs(model, 5)["x"]).all()


def test_sizes_whose_outputs_are_not_empty() -> None:
    """A window of 8, taken every 8 elements: of 3 there is none."""
    text = """g (float[N, 1, W] x) => (float[N, 1, V] y) {
        s = Constant<value_ints=[7]>()  e = Constant<value_ints=[100000]>()  a = Constant<value_ints=[2]>()
        y = Slice(x, s, e, a) }"""
    model = model_of(text)
    assert run(model, {"x": np.ones((1, 1, 3), np.float32)})["y"].size == 0
    assert fit(model, partial(run, model)).dims == {"N": 1, "W": 16}


def test_what_can_say_nothing_costs_a_few_trials() -> None:
    trials = []

    def nothing(inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        trials.append(inputs)
        return {"y": np.full(3, np.nan)}

    model = model_of("g (float[N, C] x) => (float[N, C] y) { y = Exp(x) }")
    assert fit(model, nothing).dims == {"N": 3, "C": 3}
    assert len(trials) <= 9
