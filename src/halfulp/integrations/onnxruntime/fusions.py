"""ONNX Runtime's own fusions, made before what is left of Pow and PRelu becomes ours."""

from __future__ import annotations

import tempfile
from collections.abc import Container
from pathlib import Path
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto

from halfulp.errors import UnsupportedError, printable
from halfulp.integrations.onnxruntime.rewrite import DOMAIN, patched
from halfulp.models.onnx import parse
from halfulp.models.onnx.inline import resolved
from halfulp.models.onnx.walk import every_node, subgraphs
from halfulp.specs import find

_HALVES = ("Pow_float16", "Pow_bfloat16", "PRelu_float16", "PRelu_bfloat16")
_MARK = "halfulp half "
_INSERTED = "InsertedPrecisionFreeCast_"


def fused(model: ModelProto, file: str, ort: Any, options: Any) -> ModelProto:
    """Return a copy of a model in which ONNX Runtime has replaced subgraphs by operators of its own.

    ONNX Runtime computes float16 in float32 and drops the casts between two nodes. So a power of halves that is in no
    fusion is our operator before the casts are inserted. Which powers those are, a first run finds out.

    Args:
        model: is left as it is.
        file: its name in messages.
        ort: the module onnxruntime.
        options: the ``SessionOptions`` to do it with, which have our operators; they come back as they were.

    Raises:
        ModelError: as for ``patched``.
        UnsupportedError: ONNX Runtime refuses the model as it is, or the result has no place in 2 GiB.
    """
    plain, ours = resolved(model, file), patched(model, file)
    halves = {index: node.op_type for index, node in enumerate(every_node(ours.graph)) if _is_half(node)}
    if not halves:
        return _fused(model, file, ort, options)
    # No fusion has a PRelu in it, and ONNX Runtime would put its function's body in the place of one of halves.
    fixed = {index for index, operator in halves.items() if operator.startswith("PRelu")}
    while True:
        result = _fused(_with_halves(plain, ours, fixed, halves), file, ort, options)
        left = {
            int(node.name.removeprefix(_MARK))
            for node in every_node(result.graph)
            if node.name.startswith(_MARK) and not node.domain and node.op_type == "Pow"
        }
        if not left:
            return result
        fixed |= left


def _is_half(node: NodeProto) -> bool:
    return bool(node.domain == DOMAIN and node.op_type in _HALVES)


def _with_halves(
    plain: ModelProto, ours: ModelProto, fixed: Container[int], halves: Container[int]
) -> ModelProto:
    """Return a model whose fixed nodes are our operators, and whose other Pow and PRelu are ONNX's.

    Args:
        plain: the model with its nodes as ``resolved`` leaves them.
        ours: the same with all of them as our operators.
        fixed: their places among all nodes.
        halves: the places of those of halves, which are marked where they are not fixed.
    """
    result = ModelProto()
    result.CopyFrom(ours)
    for index, (node, before) in enumerate(
        zip(every_node(result.graph), every_node(plain.graph), strict=True)
    ):
        if node.domain == DOMAIN and index not in fixed:
            del node.attribute[:]
            node.attribute.extend(before.attribute)
            node.domain, node.op_type = "", find(before.op_type).name
            if index in halves:
                node.name = f"{_MARK}{index}"
    return result


def _fused(model: ModelProto, file: str, ort: Any, options: Any) -> ModelProto:
    """Return what ONNX Runtime makes of a model before it runs it."""
    levels = ort.GraphOptimizationLevel
    with tempfile.TemporaryDirectory(prefix="halfulp-") as folder:
        path = Path(folder) / "fused.onnx"
        wanted = {
            "optimized_model_filepath": str(path),
            # The levels above change the layout of tensors, for this processor alone.
            "graph_optimization_level": min(
                options.graph_optimization_level, levels.ORT_ENABLE_EXTENDED, key=int
            ),
            "enable_profiling": False,
        }
        before = {name: getattr(options, name) for name in wanted}
        try:
            for name, value in wanted.items():
                setattr(options, name, value)
            # Powers of constants are to be ours, so that none may be folded.
            ort.InferenceSession(
                model.SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=["ConstantFolding"],
            )
        except Exception as error:  # of a class of onnxruntime's own, for want of a public one
            text = str(error).strip() or type(error).__name__
            reason = printable(text.splitlines()[0].rpartition(" : ")[2])
            raise UnsupportedError(f"{file}: onnxruntime can't fuse it: {reason}") from None
        finally:
            for name, value in before.items():
                setattr(options, name, value)
        result = parse(path, file=file)[0]
    _make_unique(result.graph, frozenset())
    return result


def _make_unique(graph: GraphProto, outer: frozenset[str]) -> None:
    """Rename the casts that ONNX Runtime has inserted in a subgraph where a graph around it has one of that name."""
    made = {name for node in graph.node for name in node.output}
    names = {name: f"{name}/{graph.name}" for name in made & outer if name.startswith(_INSERTED)}
    for node in every_node(graph) if names else ():
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
    known = outer | made | frozenset(names.values())
    for node in graph.node:
        for _, inner in subgraphs(node):
            _make_unique(inner, known)
