"""How much the rounding of each Pow and PRelu adds to the outputs of a network: one by one, all else equal.

In a copy of the network, a Where after each node can replace the node's result by the exact one. So one
session of ONNX Runtime without fusions shows the error that each node adds. A default session, with fusions,
shows the change that these cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from halfulp.auditing.node import Use
from halfulp.errors import HalfulpError
from halfulp.models.graph import Array, Model
from halfulp.models.onnx import build
from halfulp.models.onnx.walk import default_opset
from halfulp.operators import op

_MOST = 64  # nodes
_OLDEST = 9  # the first opset with Where


def rounding(
    proto: ModelProto,
    model: Model,
    folder: Path | None,
    nodes: Mapping[str, tuple[NodeProto, Use]],
    values: Mapping[str, Array],
    inputs: Mapping[str, Any],
) -> tuple[dict[str, float], float]:
    """Return the most ulps by which outputs change: for each node, and for ONNX Runtime's fusions.

    Args:
        proto: a network of float32 or float64; left as it is.
        model: the same, as it was read.
        folder: where its external data lies.
        nodes: those to look at, by their outputs; the first 64 are.
        values: their operands and results on these inputs, by name.
        inputs: arrays by name.

    Raises:
        HalfulpError: ONNX Runtime is not installed or does not take the model, or the opset has no Where.
    """
    from halfulp.integrations.onnxruntime import engine

    if (default_opset(proto.opset_import) or 1) < _OLDEST:
        raise HalfulpError("the opset has no Where")
    own, apart = _each(proto, model, folder, nodes, values, inputs)
    session = engine.open_session(proto, engine.Settings(ours=False), folder=folder)
    return apart, _apart(own, engine.run_in(session, model, inputs))


def _each(
    proto: ModelProto,
    model: Model,
    folder: Path | None,
    nodes: Mapping[str, tuple[NodeProto, Use]],
    values: Mapping[str, Array],
    inputs: Mapping[str, Any],
) -> tuple[dict[str, Array], dict[str, float]]:
    """Return the outputs without fusions, and the most ulps by which each node changes them."""
    from halfulp.integrations.onnxruntime import engine

    names = list(nodes)[:_MOST]
    copy = _switched(proto, {name: values[name] for name in names})
    switched = build(copy, model.file, folder, keep_unknown=True)
    session = engine.open_session(copy, engine.Settings(ours=False, optimized=False), folder=folder)
    off = {name: np.zeros((1,) * values[name].ndim, values[name].dtype) for name in names}

    def run(exact: Mapping[str, Array]) -> dict[str, Array]:
        results = {**off, **exact}
        fed = {_EXACT.format(name): results[name] for name in names}
        return engine.run_in(
            session, switched, {**inputs, **fed, **{_USE.format(n): np.array(n in exact) for n in names}}
        )

    own = run({})
    apart = {}
    for name in names:
        node, use = nodes[name]
        right = np.asarray(op(use.operator)(*(values[each] for each in node.input), **use.attributes))
        apart[name] = _apart(own, run({name: right}))
    return own, apart


_USE, _EXACT = "{}//use", "{}//exact"


def _switched(proto: ModelProto, results: Mapping[str, Array]) -> ModelProto:
    """Return a copy with inputs that can replace each of these values."""
    copy = ModelProto()
    copy.CopyFrom(proto)
    nodes = list(copy.graph.node)
    made = {node.output[0]: index for index, node in enumerate(nodes) if node.output}
    for name, array in sorted(results.items(), key=lambda item: -made[item[0]]):
        own, use, exact = f"{name}//own", _USE.format(name), _EXACT.format(name)
        nodes[made[name]].output[0] = own
        nodes.insert(made[name] + 1, helper.make_node("Where", [use, exact, own], [name]))
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        copy.graph.input.append(helper.make_tensor_value_info(use, TensorProto.BOOL, []))
        copy.graph.input.append(helper.make_tensor_value_info(exact, number, [None] * array.ndim))
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del copy.graph.node[:]
    copy.graph.node.extend(kept)
    return copy


def _apart(outputs: Mapping[str, Any], others: Mapping[str, Any]) -> float:
    """Return the most ulps by which the floats of outputs differ."""
    most = 0.0
    for name, value in outputs.items():
        if not isinstance(value, np.ndarray) or value.dtype not in (np.float32, np.float64):
            continue
        other = others[name]
        finite = np.isfinite(value) & np.isfinite(other)
        units = np.spacing(np.abs(value[finite])).astype(np.float64)
        distances = np.abs(value[finite].astype(np.float64) - other[finite])
        most = max(most, float((distances / units).max(initial=0)))
    return most
