"""Many nodes: those alike are judged once, and the work for others grows as their number does."""

import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.models.onnx_models import parsed

import halfulp as hu
from halfulp.auditing import api
from halfulp.auditing.data import limits

TARGETS = ("onnxruntime", "openvino")


def chain(count: int, kind: str, *, distinct: bool) -> onnx.ModelProto:
    """Return a chain of powers, each with an exponent of its own or all with one, every tenth of the input."""
    type = kind.removesuffix("32")
    nodes = " ".join(
        f"v{i + 1} = Pow({f'v{i}' if i % 10 else 'x'}, e{i if distinct else 0})" for i in range(count)
    )
    model = parsed(f"15: g ({type}[N, 4] x) => ({type}[N, 4] v{count}) {{ {nodes} }}")
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array(1 + i / 8, kind), f"e{i}") for i in range(count if distinct else 1)
    )
    return model


def calls(model: onnx.ModelProto) -> int:
    """Return how many functions of Python an audit and its report call."""
    found = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "call"

    limits.cache_clear()  # else exponents of an earlier chain cost nothing
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        report = hu.audit(model, TARGETS)
        report.json()
        str(report)
    finally:
        sys.setprofile(before)
    return found


def test_nodes_alike_are_judged_once(monkeypatch):
    asked: dict[str, int] = {}
    for name in ("breaches", "open_slope", "statement", "conversion"):
        judge = getattr(api, name)

        def counted(*given: Any, name: str = name, judge: Any = judge) -> Any:
            asked[name] = asked.get(name, 0) + 1
            return judge(*given)

        monkeypatch.setattr(api, name, counted)
    (report,) = hu.audit(chain(300, "float32", distinct=False), TARGETS).models
    assert len(report.nodes) == 300
    assert {node.targets[0].verdict for node in report.nodes} == {"exact"}
    # The last one's output is declared as the first one's input is, by a name; the shapes between are inferred.
    assert asked["statement"] == 2 * asked["open_slope"]
    assert asked["conversion"] == 3 * asked["open_slope"]  # one for the command for another runtime
    assert asked["breaches"] == asked["open_slope"] <= 2
    asked.clear()
    hu.audit(chain(300, "float32", distinct=True), TARGETS)
    assert asked["conversion"] <= 6  # bases that may be below 0, and those that are not
    assert asked["breaches"] <= 2
    assert asked["open_slope"] == 300  # one for each exponent
    asked.clear()
    model = chain(300, "float32", distinct=True)
    for tensor in model.graph.initializer:
        tensor.raw_data = np.float32(2).tobytes()
    hu.audit(model, TARGETS)
    assert asked["open_slope"] <= 2  # one for the value that all exponents have


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("distinct", [False, True])
def test_twice_the_nodes_are_twice_the_work(kind, distinct):
    calls(chain(10, kind, distinct=distinct))  # what is read and cached once is
    # All three have exponents beyond 8, whose findings cost something, too.
    few, more, most = (calls(chain(count, kind, distinct=distinct)) for count in (80, 160, 320))
    assert most - more <= 2.1 * (more - few)


def test_equal_values_in_other_places_are_the_same_constant():
    model = chain(6, "float32", distinct=True)
    for tensor in model.graph.initializer[1:]:
        tensor.raw_data = model.graph.initializer[0].raw_data
    model.graph.initializer[5].raw_data = np.float32(3).tobytes()
    (report,) = hu.audit(model, "onnxruntime==1.31.1").models
    assert [node.inputs[1].text for node in report.nodes] == [*["1"] * 5, "3"]
    assert [node.targets[0].verdict for node in report.nodes] == [*["exact"] * 5, "within"]


EXPONENTS = (
    *(-9, -8, -7.5, -2, -1, -0.5, 0, 0.1, 1 / 3, 0.5, 0.75, 1, 1.5, 2, 2.2, 2.5, 3, 4, 7, 7.9, 8, 9.5),
    1e4,
)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("base", ["float16", "float32", "int32"])
def test_a_node_among_others_of_its_kind_is_judged_as_it_is_alone(base, kind):
    numbers = [helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in (base, kind)]
    odd = () if "int" in kind else (np.inf, -np.inf, np.nan)
    arrays = [np.array(number).astype(kind) for number in (*EXPONENTS, *odd)]

    def judged(*values: np.ndarray[Any, Any]) -> list[Any]:
        tensors = [numpy_helper.from_array(array, f"e{i}") for i, array in enumerate(values)]
        nodes = [helper.make_node("Pow", ["x", tensor.name], [f"v_{tensor.name}"]) for tensor in tensors]
        x, *ends = (
            helper.make_tensor_value_info(name, numbers[0], ["N", 4])
            for name in ("x", *(node.output[0] for node in nodes))
        )
        graph = helper.make_graph(nodes, "g", [x], ends, tensors)
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])
        (report,) = hu.audit(model, ("onnxruntime", "openvino", "tensorrt")).models
        return [(node.notices, node.targets, node.breaks) for node in report.nodes]

    assert judged(*arrays) == [found for array in arrays for found in judged(array)]
