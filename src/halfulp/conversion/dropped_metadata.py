"""What a model says that another format has no place for."""

from __future__ import annotations

from onnx import ModelProto

from halfulp.conversion.editor import Change
from halfulp.models.directml.dxdispatch import Program
from halfulp.models.graph import Model, listed
from halfulp.models.onnx.walk import every_node, plain_domain
from halfulp.models.openvino.reader import Origin


def dropped_metadata(model: ModelProto | Model | Program, file: str) -> list[Change]:
    """Return a line for each thing of a model that does not go along into another format."""
    if isinstance(model, ModelProto):
        found = _of_onnx(model)
    elif isinstance(model, Model):
        found = _of_openvino(model)
    else:
        found = [f"its field {name!r}" for name in model.other]
    return [Change(file, f"{what} is not carried over") for what in found]


def _of_onnx(model: ModelProto) -> list[str]:
    found = [
        name for name in ("producer_name", "domain", "model_version", "doc_string") if getattr(model, name)
    ]
    found = [f"its {name}" for name in found]
    found += [f"its metadata {entry.key!r}" for entry in model.metadata_props]
    others = [entry.domain for entry in model.opset_import if plain_domain(entry.domain)]
    found += [f"its import of {domain!r}" for domain in others]
    every = list(every_node(model.graph))
    named = [node.name for node in every if node.name]
    if named:
        found.append(f"the name of {len(named)} nodes ({listed(named, 3)})")
    if any(node.doc_string for node in every):
        found.append("the doc string of nodes")
    if any(node.metadata_props for node in every):
        found.append("the metadata of nodes")
    return found


def _of_openvino(model: Model) -> list[str]:
    origin = model.graph.source
    if not isinstance(origin, Origin):
        return []
    found = [f"its <{element.tag}>" for element in origin.rest if len(element)]
    if any(note.rt_info is not None and len(note.rt_info) for note in origin.values.values()):
        found.append("the rt_info of layers")
    return found
