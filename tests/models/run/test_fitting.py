"""Inputs that are made up for networks that do not say which sizes they take."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import halfulp as hu
from halfulp.errors import HalfulpError, ModelError, UnsupportedError
from halfulp.models.graph import Array, Model
from halfulp.models.load import load
from halfulp.models.run.api import run
from halfulp.models.run.fitting import fit


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
    assert str(found) == "dims made up: N=3, bands=80, T=3; --dim NAME=N changes one"


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
    assert str(found).endswith("; --dim NAME=N changes one")
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

    with pytest.raises(
        ModelError, match=r"--dim NAME=N.*--input NAME=FILE.*the engine's own sentence, to the end"
    ):
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
    assert hu.run(model)["y"].shape == (2, 8)
    with pytest.raises(ModelError, match="needs a value for its input 'x'"):
        hu.run(model, {})
