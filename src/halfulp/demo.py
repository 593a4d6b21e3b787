"""Four small networks of kinds that use Pow and PRelu, with seeded random weights: ``halfulp demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

from halfulp.models.files import replacing, write_npz


class Graph:
    """Collects nodes and weights, so that a network reads from its input to its output."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, value: ArrayLike) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def normal(self, name: str, *shape: int, fan_in: int = 1) -> str:
        return self.weight(name, self.random.standard_normal(shape, np.float32) / np.float32(fan_in) ** 0.5)

    def node(self, op_type: str, *inputs: str, output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], name=output, **attributes))
        return output

    def conv(self, x: str, name: str, inner: int, outer: int, size: int, **attributes: Any) -> str:
        w = self.normal(f"{name}.weight", outer, inner, size, size, fan_in=inner * size * size)
        return self.node("Conv", x, w, output=name, pads=[size // 2] * 4, **attributes)

    def layer_norm(self, x: str, name: str, width: int, output: str) -> str:
        """Normalize and scale, with the weights ``two`` and ``epsilon``."""
        mean = self.node("ReduceMean", x, output=f"{name}.mean", axes=[-1], keepdims=1)
        centred = self.node("Sub", x, mean, output=f"{name}.centred")
        square = self.node("Pow", centred, "two", output=f"{name}.square")
        variance = self.node("ReduceMean", square, output=f"{name}.variance", axes=[-1], keepdims=1)
        shifted = self.node("Add", variance, "epsilon", output=f"{name}.shifted")
        deviation = self.node("Sqrt", shifted, output=f"{name}.deviation")
        normal = self.node("Div", centred, deviation, output=f"{name}.normal")
        return self.node("Mul", normal, self.normal(f"{name}.scale", width), output=output)

    def model(
        self,
        name: str,
        opset: int,
        x: tuple[str, list[int | str]],
        y: list[int | str],
        *,
        type: int = TensorProto.FLOAT,
        is_valid: bool = True,
    ) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(x[0], type, x[1])],
            [helper.make_tensor_value_info(self.nodes[-1].output[0], type, y)],
            [_as_type(weight, type) for weight in self.weights],
        )
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="halfulp demo")
        model.ir_version = max(helper.find_min_ir_version_for(opsets), 4)  # 4: initializers need no input
        if is_valid:
            onnx.checker.check_model(model, full_check=True)
        return model


def _as_type(weight: onnx.TensorProto, type: int) -> onnx.TensorProto:
    array = numpy_helper.to_array(weight)
    if array.dtype != np.float32:
        return weight
    return numpy_helper.from_array(array.astype(helper.tensor_dtype_to_np_dtype(type)), weight.name)


def super_resolution(seed: int = 1) -> onnx.ModelProto:
    """Return a network that doubles the sides of a one-channel image: PRelu-16 with a slope per channel."""
    g = Graph(seed)
    x, inner = "image", 1
    layers = (("extract", 16, 5), ("shrink", 8, 1), ("map0", 8, 3), ("map1", 8, 3), ("expand", 16, 1))
    for name, outer, size in layers:
        x = g.conv(x, name, inner, outer, size)
        # ONNX broadcasts a slope from the last axis: per channel means shape (C, 1, 1).
        slope = g.weight(f"{name}_prelu.slope", g.random.uniform(0.05, 0.4, (outer, 1, 1)))
        x, inner = g.node("PRelu", x, slope, output=f"{name}_prelu"), outer
    x = g.conv(x, "pixels", 16, 4, 3)
    g.node("DepthToSpace", x, output="enlarged", blocksize=2, mode="CRD")
    return g.model("super_resolution", 16, ("image", ["N", 1, 24, 24]), ["N", 1, 48, 48])


def transformer_block(seed: int = 2, width: int = 32, heads: int = 4) -> onnx.ModelProto:
    """Return a pre-norm transformer block with Pow-15 and exponents 2 and 3, as exporters write it."""
    g = Graph(seed)
    scales = {"gelu_cubic": 0.044715, "gelu_scale": (2 / np.pi) ** 0.5}
    scales["attention_scale"] = (width // heads) ** -0.5
    numbers = {"two": 2.0, "three": 3.0, "half": 0.5, "one": 1.0, "epsilon": 1e-5}
    for name, value in (numbers | scales).items():
        g.weight(name, value)
    g.weights.append(numpy_helper.from_array(np.array([0, 0, heads, width // heads]), "split_shape"))
    g.weights.append(numpy_helper.from_array(np.array([0, 0, width]), "merge_shape"))

    def layer_norm(x: str, name: str) -> str:
        scaled = g.layer_norm(x, name, width, f"{name}.scaled")
        return g.node("Add", scaled, g.normal(f"{name}.bias", width), output=name)

    def linear(x: str, name: str, inner: int, outer: int) -> str:
        return g.node("MatMul", x, g.normal(f"{name}.weight", inner, outer, fan_in=inner), output=name)

    def split(x: str, name: str, perm: list[int]) -> str:
        split = g.node("Reshape", linear(x, name, width, width), "split_shape", output=f"{name}.split")
        return g.node("Transpose", split, output=f"{name}.heads", perm=perm)

    def attention(x: str) -> str:
        q, v = split(x, "query", [0, 2, 1, 3]), split(x, "value", [0, 2, 1, 3])
        scores = g.node("MatMul", q, split(x, "key", [0, 2, 3, 1]), output="scores")
        scaled = g.node("Mul", scores, "attention_scale", output="scores.scaled")
        mixed = g.node("MatMul", g.node("Softmax", scaled, output="attention", axis=-1), v, output="mixed")
        back = g.node("Transpose", mixed, output="mixed.back", perm=[0, 2, 1, 3])
        return linear(g.node("Reshape", back, "merge_shape", output="merged"), "attended", width, width)

    def gelu(x: str) -> str:
        """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"""
        cubed = g.node("Mul", g.node("Pow", x, "three", output="cube"), "gelu_cubic", output="cubic")
        inner = g.node("Mul", g.node("Add", x, cubed, output="inner"), "gelu_scale", output="inner.scaled")
        gate = g.node("Add", g.node("Tanh", inner, output="tanh"), "one", output="gate")
        return g.node("Mul", g.node("Mul", x, "half", output="halved"), gate, output="gelu")

    x = g.node("Add", "tokens", attention(layer_norm("tokens", "norm1")), output="residual")
    hidden = gelu(linear(layer_norm(x, "norm2"), "widen", width, 4 * width))
    g.node("Add", x, linear(hidden, "narrow", 4 * width, width), output="block")
    shape: list[int | str] = ["N", "length", width]
    return g.model("transformer_block", 17, ("tokens", shape), shape)


def face(seed: int = 3) -> onnx.ModelProto:
    """Return a network like those of old face recognition converters: its slopes have shape (C,), which
    runtimes interpret differently, and its exponent has an integer type, which opset 12 introduced."""
    g = Graph(seed)
    x = "image"
    for name, inner, outer in (("conv1", 3, 8), ("conv2", 8, 12)):
        x = g.conv(x, name, inner, outer, 3, strides=[2, 2])
        slope = g.weight(f"{name}.slope", g.random.uniform(0.05, 0.4, outer))
        x = g.node("PRelu", x, slope, output=f"{name}.prelu")
    x = g.node("Flatten", g.node("GlobalAveragePool", x, output="pooled"), output="embedding")
    g.weights.append(numpy_helper.from_array(np.array(2), "two"))
    squares = g.node("Pow", x, "two", output="squares")
    length = g.node("Sqrt", g.node("ReduceSum", squares, output="sum", axes=[1]), output="length")
    g.node("Div", x, length, output="normalized")
    return g.model("face", 9, ("image", ["N", 3, 32, 32]), ["N", 12], is_valid=False)


def norm_float16(seed: int = 4, width: int = 64) -> onnx.ModelProto:
    """Return a float16 LayerNorm. For activations of some hundreds, its square overflows and its output is zero."""
    g = Graph(seed)
    g.weight("two", 2.0)
    g.weight("epsilon", 1e-5)
    g.layer_norm("x", "norm", width, "normalized")
    return g.model("norm_float16", 17, ("x", ["N", width]), ["N", width], type=TensorProto.FLOAT16)


NETWORKS = (super_resolution, transformer_block, face, norm_float16)


def write(folder: Path) -> list[Path]:
    """Write the networks into a folder, with inputs that overflow in ``norm_float16``. Return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for build in NETWORKS:
        paths.append(folder / f"{build.__name__}.onnx")
        with replacing(paths[-1]) as temporary:
            onnx.save(build(), temporary)
    activations = 400 * np.random.default_rng(5).standard_normal((4, 64))
    paths.append(folder / "norm_float16.npz")
    write_npz(paths[-1], {"x": activations.astype(np.float16)})
    return paths
