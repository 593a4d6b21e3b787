"""A model's inputs: those that are fed, and those that ``halfulp run`` makes up."""

import numpy as np
import pytest
from tests.models.onnx_models import run, single

from halfulp.errors import ModelError, UnsupportedError
from halfulp.models.graph import Graph, Model, Value
from halfulp.models.onnx import load
from halfulp.models.run.inputs import Fit, bind, fit
from halfulp.running import evaluate
from halfulp.types import TYPES


def model_of(*values: Value) -> Model:
    return Model("net.onnx", Graph(values, (), {}, (), {}))


ONNX_TYPES = [row.name for row in TYPES.values() if row.onnx is not None]


@pytest.mark.parametrize("name", [*ONNX_TYPES, "bool", "string", "complex64"])
def test_every_type_can_be_made_up(name):
    model = model_of(Value("x", name, (4, "N", None)), Value("y", name, ()))
    made = Fit({"N": 5}).inputs(model)
    assert made["x"].shape == (4, 5, 3)
    assert made["y"].shape == ()
    assert name != "string" or type(made["y"].item()) is str
    assert bind(model, made).keys() == {"x", "y"}
    again = Fit({"N": 5}).inputs(model)
    other = Fit({"N": 5}).inputs(model, seed=1)
    assert made["x"].tobytes() == again["x"].tobytes() or name == "string"
    assert made["x"].tolist() != other["x"].tolist()


def test_a_value_without_a_type():
    assert str(Value("x", None, (2, "N"))) == "?[2, N]"
    assert str(Value("x", None, None)) == "?"


def test_a_single_node_of_unknown_shapes_can_be_fed():
    loaded = load(single("Pow", 15, {"x": ("float32", None), "y": ("float32", None)}))
    bound = bind(loaded, {"x": np.ones((2, 3), np.float32), "y": np.float32(2)})
    assert [value.shape for value in bound.values()] == [(2, 3), ()]


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({"x": 1, "a": 2}, "input 'x' is given twice"),
        ({"b": 1}, r"has several inputs called 'b'\s+expected: x, y"),
        ({"c": 1}, "has no input 'c'; there are x, y"),
        ({"a": 1, "y": 2}, ""),
    ],
)
def test_inputs_by_their_aliases(feeds, words):
    model = model_of(Value("x", aliases=("a", "b", "y")), Value("y", aliases=("b",)))
    if words:
        with pytest.raises(ModelError, match=words):
            bind(model, feeds)
    else:
        assert bind(model, feeds) == {"x": 1, "y": 2}


def test_many_inputs_are_found_by_name_without_a_search():
    class Name(str):
        uses = 0

        def __hash__(self):
            Name.uses += 1
            return str.__hash__(self)

        def __eq__(self, other):
            Name.uses += 1
            return str.__eq__(self, other)

    feeds = {Name(n): n for n in range(1000)}
    assert bind(model_of(*map(Value, feeds)), feeds) == feeds
    assert Name.uses < 50 * len(feeds)


def test_running_without_inputs():
    model = load(single("Pow", 15, {"x": ("float32", ["N", "C"]), "y": ("float32", [])}))
    outputs = evaluate(model, "random").outputs
    assert outputs.inputs["x"].shape == (1, 512)
    assert evaluate(model, "random", dims={"N": 4, "C": 8}, seed=3).outputs["out"].shape == (4, 8)
    with pytest.raises(
        ModelError, match=r"pass {'x': array, 'y': array}, or 'random' .*\n  expected: x: float32\[N, C\]"
    ):
        evaluate(model, None)
    with pytest.raises(ModelError, match=r"(?s)for its input 'x': pass {'x': array}.*got: no inputs"):
        evaluate(model, {})


def test_an_operator_that_nothing_evaluates_is_said_at_once():
    trials = []

    def refuse(inputs: object) -> object:
        trials.append(inputs)
        raise UnsupportedError("nothing evaluates it")

    with pytest.raises(UnsupportedError, match="nothing evaluates it"):
        fit(model_of(Value("x", "float32", ("N",))), refuse)
    assert len(trials) == 1


@pytest.mark.parametrize("feeds", [3, [np.ones(2)], np.ones(2), "x"])
def test_inputs_are_fed_by_name(feeds):
    with pytest.raises(ModelError, match="its inputs are fed as a dict of arrays by name"):
        run(model_of(Value("x", "float32", (2,))), feeds)
