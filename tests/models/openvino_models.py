"""Graphs of OpenVINO's operators: by hand, and made by hypothesis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from halfulp.models.graph import Graph, Model, Node, Value
from halfulp.models.openvino import load, save

SMALL = """<?xml version="1.0"?>
<net name="small" version="11">
  <layers>
    <layer id="0" name="data" type="Parameter" version="opset1">
      <data shape="?,3" element_type="f32" />
      <output><port id="0" precision="FP32" names="x,input"><dim>-1</dim><dim>3</dim></port></output>
    </layer>
    <layer id="1" name="exponent" type="Const" version="opset1">
      <data element_type="f32" shape="3" offset="4" size="12" />
      <output><port id="0" precision="FP32"><dim>3</dim></port></output>
    </layer>
    <layer id="2" name="power" type="Power" version="opset1">
      <data auto_broadcast="numpy" />
      <input>
        <port id="0" precision="FP32"><dim>-1</dim><dim>3</dim></port>
        <port id="1" precision="FP32"><dim>3</dim></port>
      </input>
      <output><port id="2" precision="FP32" names="y"><dim>-1</dim><dim>3</dim></port></output>
    </layer>
    <layer id="3" name="result" type="Result" version="opset1" output_names="y">
      <input><port id="0" precision="FP32"><dim>-1</dim><dim>3</dim></port></input>
    </layer>
  </layers>
  <edges>
    <edge from-layer="0" from-port="0" to-layer="2" to-port="0" />
    <edge from-layer="1" from-port="0" to-layer="2" to-port="1" />
    <edge from-layer="2" from-port="2" to-layer="3" to-port="0" />
  </edges>
  <rt_info />
</net>
"""
WEIGHTS = np.array([9, 1, 2, 0.5], np.float32).tobytes()


def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> Node:
    """Return a node of an OpenVINO operator."""
    return Node(f"'{output}' ({kind})", "openvino", "", kind, "1", 1, tuple(inputs), (output,), attributes)


def graph(
    nodes: list[Node], inputs: list[Value], outputs: list[str], constants: dict[str, np.ndarray] | None = None
) -> Graph:
    """Return a graph that declares nothing but its inputs."""
    results = tuple(Value(name) for name in outputs)
    return Graph("g", tuple(inputs), results, constants or {}, tuple(nodes), {v.name: v for v in inputs})


def reread(made: Graph | Model, folder: Path) -> Model:
    """Return a graph as it is read after it was written."""
    save(made, folder / "g.xml")
    return load(folder / "g.xml")


NUMPY = {"auto_broadcast": "numpy"}


def compressed(exponent: float) -> Graph:
    """Return a power whose exponent is stored in float16, as tools write float32 networks."""
    nodes = [node("Convert", ["h"], "e", destination_type="float32"), node("Power", ["x", "e"], "y", **NUMPY)]
    return graph(nodes, [Value("x", "float32", (2, 3))], ["y"], {"h": np.array(exponent, np.float16)})


SHAPES = [(2, 3), (3,), (1, 3), (2, 1), (), (1, 2, 3)]


@st.composite
def graphs(draw: st.DrawFn, element_types: tuple[str, ...] = ("float32",)) -> tuple[Graph, dict[str, Any]]:
    """Make a graph of all our operators, and inputs that every power of it is exact for."""
    name = draw(st.sampled_from(element_types))
    dtype = np.dtype(name)
    values: dict[str, tuple[int, ...]] = {}
    feeds, constants, nodes, inputs = {}, {}, [], []

    def numbers(shape: tuple[int, ...], least: int = -3) -> np.ndarray:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(st.integers(least, 3), min_size=size, max_size=size)), dtype).reshape(
            shape
        )

    def constant(array: np.ndarray) -> str:
        constants[f"c{len(constants)}"] = array
        return f"c{len(constants) - 1}"

    for index in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(SHAPES))
        known = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
        declared = tuple(dim if keep else None for dim, keep in zip(shape, known, strict=True))
        inputs.append(Value(f"x{index}", name, declared))
        values[f"x{index}"] = shape
        feeds[f"x{index}"] = numbers(shape)
    kinds = ["Power", "PReLU", "Convert", "Multiply", "Add", "Reshape", "Unsqueeze", "Select"]
    for index in range(draw(st.integers(1, 6))):
        kind, output = draw(st.sampled_from(kinds)), f"v{index}"
        x = draw(st.sampled_from(sorted(values)))
        shape = values[x]
        others = [other for other in sorted(values) if _broadcasts(shape, values[other])]
        y = draw(st.sampled_from(others))
        both = np.broadcast_shapes(shape, values[y])
        match kind:
            case "Power":
                y = constant(np.array(draw(st.sampled_from([0, 1])), dtype))
                nodes.append(node(kind, [x, y], output, **NUMPY))
            case "PReLU":
                slope = (shape[1],) if len(shape) > 1 and draw(st.booleans()) else (1,)
                shape = shape or (1,)
                if not values[x]:
                    nodes.append(node("Unsqueeze", [x, constant(np.array([0]))], f"{output}_"))
                    values[f"{output}_"] = (1,)
                    x = f"{output}_"
                nodes.append(node(kind, [x, constant(numbers(slope, -2))], output))
            case "Convert":
                nodes.append(node(kind, [x], f"{output}_", destination_type="float64"))
                nodes.append(node(kind, [f"{output}_"], output, destination_type=name))
            case "Multiply" | "Add":
                nodes.append(node(kind, [x, y], output, **NUMPY))
                shape = both
            case "Reshape":
                pattern = [-1] if draw(st.booleans()) else [*shape[::-1]]
                nodes.append(
                    node(kind, [x, constant(np.array(pattern, np.int64))], output, special_zero=False)
                )
                shape = tuple(pattern) if pattern != [-1] else (int(np.prod(shape)),)
            case "Unsqueeze":
                if len(shape) > 4:
                    continue
                axis = draw(st.integers(-len(shape) - 1, len(shape)))
                nodes.append(node(kind, [x, constant(np.array([axis], np.int32))], output))
                place = axis % (len(shape) + 1)
                shape = (*shape[:place], 1, *shape[place:])
            case "Select":
                nodes.append(node("Less", [x, y], f"{output}_", **NUMPY))
                nodes.append(node(kind, [f"{output}_", x, y], output, **NUMPY))
                shape = both
        values[output] = shape
    made = sorted(value for value in values if value.startswith("v")) or ["x0"]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=2, unique=True))
    return graph(nodes, inputs, outputs, constants), feeds


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return len(np.broadcast_shapes(a, b)) < 6
    except ValueError:
        return False
