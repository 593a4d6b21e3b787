"""A model's inputs: those that are fed, and those that ``halfulp run`` makes up."""

import numpy as np
import pytest
from tests.models.onnx_models import run, single

from halfulp.errors import HalfulpError, ModelError
from halfulp.models.graph import Graph, Model, Value
from halfulp.models.run.inputs import Fit, bind
from halfulp.types import TYPES


def model_of(*values: Value) -> Model:
    return Model("net.onnx", Graph("g", values, (), {}, (), {}))


ONNX_TYPES = [row.name for row in TYPES.values() if row.onnx is not None]


@pytest.mark.parametrize("name", [*ONNX_TYPES, "bool", "string", "complex64"])
def test_every_type_can_be_made_up(name):
    model = model_of(Value("x", name, (4, "N", None)), Value("y", name, ()))
    made = Fit({"N": 5}).inputs(model)
    assert made["x"].shape == (4, 5, 3)
    assert made["y"].shape == ()
    assert bind(model, made).keys() == {"x", "y"}
    again = Fit({"N": 5}).inputs(model)
    other = Fit({"N": 5}).inputs(model, seed=1)
    assert made["x"].tobytes() == again["x"].tobytes() or name == "string"
    assert made["x"].tolist() != other["x"].tolist()


def test_a_value_without_a_type():
    assert str(Value("x", None, (2, "N"))) == "?[2, N]"
    assert str(Value("x", None, None)) == "?"


def test_symbols_are_one_size():
    made = Fit().inputs(model_of(Value("x", "float32", ("N", "C")), Value("y", "float32", ("C", 1))))
    assert [made[name].shape for name in "xy"] == [(3, 3), (3, 1)]


def test_inputs_with_initializers_are_left_out():
    value = Value("x", "float32", (2,))
    model = Model("net.onnx", Graph("g", (value,), (), {"x": np.ones(2, np.float32)}, (), {}))
    assert Fit().inputs(model) == {}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Value("x", None, (2,)), "feed it"),
        (Value("x", "float32", None), "feed it"),
        (Value("x", kind="sequence"), "feed it"),
        (Value("x", "float32", (2**40, 2**40)), "would not fit into this computer's memory"),
        (Value("x", "float32", (0, 2**62, 2**62)), "would not fit into this computer's memory"),
    ],
)
def test_what_can_not_be_made_up(value, words):
    with pytest.raises(ModelError, match=words) as caught:
        Fit().inputs(model_of(value))
    assert "net.onnx" in str(caught.value)
    assert "'x'" in str(caught.value)


def test_a_dim_that_the_model_does_not_have():
    model = model_of(Value("x", "float32", ("N",)))
    with pytest.raises(HalfulpError, match="no dim of the model's inputs is called 'M'"):
        Fit({"M": 2}).inputs(model)


def test_a_single_node_of_unknown_shapes_can_be_fed():
    from halfulp.models.onnx import load

    loaded = load(single("Pow", 15, {"x": ("float32", None), "y": ("float32", None)}))
    bound = bind(loaded, {"x": np.ones((2, 3), np.float32), "y": np.float32(2)})
    assert [value.shape for value in bound.values()] == [(2, 3), ()]


@pytest.mark.parametrize("feeds", [3, [np.ones(2)], np.ones(2), "x"])
def test_inputs_are_fed_by_name(feeds):
    with pytest.raises(ModelError, match="its inputs are fed as a dict of arrays by name"):
        run(model_of(Value("x", "float32", (2,))), feeds)
