"""ONNX models to OpenVINO's IR: OpenVINO's own reader converts the operators other than Pow and PRelu.

Pow and PRelu nodes are first put into forms that the reader keeps right (:mod:`halfulp.conversion.targets`).
Each converted node is then compared with its ONNX node, so that nothing with another meaning is written. The
model is read but not optimized (as ``openvino.convert_model`` would), so that each node is still there to be
compared. Plugins optimize when they compile.
"""

import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto

from halfulp.conversion.editor import Change, Editor, remade
from halfulp.conversion.opset import inline
from halfulp.conversion.passes import run_passes
from halfulp.conversion.rules import apply_first
from halfulp.conversion.spellings import EXPAND_PRELU
from halfulp.conversion.targets import TARGET
from halfulp.conversion.verify import Feed, Verification, difference, distance, drawing, nothing_told, runs
from halfulp.conversion.walk import Walk
from halfulp.errors import HalfulpError, ModelError, UnsupportedError, count_of
from halfulp.integrations import ir
from halfulp.models.files import inside, replacing
from halfulp.models.graph import Array, Value, listed
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.infer import Scope
from halfulp.models.onnx.tensors import declaration, external_data, link
from halfulp.models.onnx.walk import every_node, graphs, is_ours, plain_domain, subgraphs
from halfulp.models.run.report import vacuous
from halfulp.types import FLOATS


@dataclass
class Network:
    """A network in OpenVINO's form.

    Attributes:
        file: its name in messages.
        model: the ``openvino.Model``.
    """

    file: str
    model: Any = field(default=None, repr=False)

    def save(self, path: Path) -> None:
        """Write the .xml and the .bin beside it, both or none."""
        with tempfile.TemporaryDirectory(prefix="halfulp-") as folder, ExitStack() as files:
            made = Path(folder) / "model.xml"
            try:
                ir.openvino().save_model(self.model, made, compress_to_fp16=False)
            except RuntimeError as error:  # of no class of its own
                raise HalfulpError(f"{path}: OpenVINO does not write it: {error}") from None
            for suffix in (".bin", ".xml"):
                target = files.enter_context(replacing(path.with_suffix(suffix)))
                shutil.copyfile(made.with_suffix(suffix), target)


def to_network(model: Onnx) -> tuple[Network, list[Change]]:
    """Return an ONNX model, which is changed in place, in OpenVINO's form, and the changes made to it.

    Raises:
        UnsupportedError: OpenVINO is not installed or refuses the model; a Pow or PRelu node has no form that
            it keeps, or has another meaning after its reader.
    """
    ir.openvino()
    changes = _dropped(model) + inline(model)
    passes = (*TARGET, lambda walk, _: walk.rewrite(is_ours, _as_layers))
    changes += run_passes(Walk(model), *((each, "openvino") for each in passes))
    _declare(model)
    network = as_read(model)
    layers = (each for _, graph in ir.graphs(network.model) for each in graph.get_ordered_ops())
    outputs = (end for each in layers if each.get_type_name() != "Result" for end in each.outputs())
    by_name = {name: end for end in outputs for name in end.get_names()}
    for scope in model.of(model.proto).scopes():
        for node in filter(is_ours, scope.owner.node):
            if why := _difference(node, scope, by_name.get(node.output[0])):
                said = f"OpenVINO's reader does not keep its meaning: {why}"
                raise UnsupportedError(f"{model.file}: node {scope.label(node)}: {said}")
    return network, changes


def _dropped(source: Onnx) -> list[Change]:
    """Return a line for each part of a model that is lost in OpenVINO's IR."""
    model = source.proto
    fields = ("producer_name", "domain", "model_version", "doc_string")
    lost = [f"its {name}" for name in fields if getattr(model, name)]
    lost += [f"its metadata {entry.key!r}" for entry in model.metadata_props]
    lost += [f"its import of {each.domain!r}" for each in model.opset_import if plain_domain(each.domain)]
    for part in ("name", "doc_string", "metadata_props"):
        number = sum(bool(getattr(node, part)) for node in every_node(model.graph))
        lost += [f"the {part} of {count_of(number, 'node')}"] * (number > 0)
    return [Change(source.file, f"{what} is not carried over") for what in lost]


def _as_layers(node: NodeProto, edit: Editor) -> None:
    """Store operands that nodes compute of constants, as 1 / 3: the reader keeps some of these nodes."""
    kind = edit.type_of(node.input[0])
    if node.op_type == "PRelu" and kind not in FLOATS:
        apply_first(EXPAND_PRELU, node, edit, f"OpenVINO's PReLU takes no {kind}")
        return
    arrays = [None if edit.maker(name) is None else edit.array(name) for name in node.input]
    pairs = zip(arrays, node.input, strict=True)
    inputs = [name if array is None else edit.constant(array, "constant") for array, name in pairs]
    edit.keep(node if inputs == node.input else remade(node, inputs))


def _declare(model: Onnx) -> None:
    """Declare the known inputs of bodies: OpenVINO reads a Pow of unknown types as another operator."""
    proto = model.proto
    for node in every_node(proto.graph):
        for _, body in subgraphs(node) if node.op_type == "Loop" else ():
            for info, kind in zip(body.input, ("int64", "bool"), strict=False):
                if not info.type.WhichOneof("value"):
                    info.CopyFrom(declaration(info.name, kind, ()))
    types = model.of(proto).types
    for path, graph in graphs(proto.graph):
        for info in graph.input:
            value = types[path].get(info.name, Value(info.name, kind="undeclared"))
            if value.kind == "tensor" and not info.type.WhichOneof("value"):
                info.CopyFrom(declaration(info.name, value.type, value.shape))


def as_read(model: Onnx) -> Network:
    """Return an ONNX model as OpenVINO's reader takes it, with nothing converted."""
    network, core = Network(model.file), ir.openvino().Core()
    from halfulp.integrations.openvino.engine import sentence  # it imports OpenVINO, which is installed

    if model.proto.functions:
        model = model.copy()
        inline(model)
    try:
        source: Any = model.proto.SerializeToString()
        if locations := set(external_data(model.proto)):
            weights = Path(tempfile.mkdtemp(prefix="halfulp-"))
            # OpenVINO reads them as late as it can.
            weakref.finalize(network, shutil.rmtree, weights, ignore_errors=True)
            for location in locations:
                link(inside(model.folder, location, "external data").resolve(), weights / location)
            (weights / "model.onnx").write_bytes(source)
            source = weights / "model.onnx"
        network.model = core.read_model(source)
    except (RuntimeError, ValueError) as error:  # of no class of its own
        raise UnsupportedError(f"{model.file}: OpenVINO's reader refuses it: {sentence(error)}") from None
    return network


def _difference(node: NodeProto, known: Scope, output: Any) -> str:
    """Return how a node of OpenVINO differs from a Pow or PRelu of ONNX; empty if it does not."""
    if output is None:
        return f"its output {node.output[0]!r} is gone"
    found = output.get_node()
    kind = {"Pow": "Power"}.get(node.op_type, node.op_type)
    if found.get_type_name() != kind:
        return f"it has become {found.get_type_name()}"
    types = {str(end.get_element_type()) for end in (*found.input_values(), output)}
    if len(types) > 1:
        return f"its operands and its result are of different types: {listed(sorted(types))}"
    if str(found.get_attributes().get("auto_broadcast", "numpy")).lower() != "numpy":
        return "it broadcasts otherwise"
    operands = zip(found.input_values(), node.input, strict=True)
    if reason := next(filter(None, (_other_operand(source, name, known) for source, name in operands)), ""):
        return reason
    if kind == "Power":
        return ""
    # A slope of rank 1 as long as dim 1 goes to the channels.
    x, slope = (found.get_input_partial_shape(index) for index in range(2))
    if slope.rank.is_dynamic:
        return "the rank of its slope is not known"
    is_row = slope.rank.get_length() == 1 and not (slope.is_static and slope[0].get_length() == 1)
    is_read_otherwise = is_row and (x.rank.is_dynamic or x.rank.get_length() > 2)
    return "OpenVINO may read its slope of rank 1 per channel" if is_read_otherwise else ""


def _other_operand(source: Any, name: str, known: Scope) -> str:
    from halfulp.integrations.openvino import ROWS, array_of  # it imports OpenVINO

    spelled = source.get_element_type().get_type_name()
    kind = ROWS[spelled].name if spelled in ROWS else spelled
    wanted, constant = known.value(name).type, known.array(name)
    if wanted not in (None, kind):
        return f"its operand {name!r} is {kind}, not {wanted}"
    producer, names = source.get_node(), source.get_names()
    if constant is not None:
        if producer.get_type_name() != "Constant":
            return f"its operand {name!r} is not a constant any more"
        held = array_of(producer)
        if (held.dtype, held.shape, held.tobytes()) != (constant.dtype, constant.shape, constant.tobytes()):
            return f"its constant {name!r} is another"
        return ""
    # The values that a body reads from the graph around it are numbered.
    numbered = rf"{re.escape(name)}(_\d+)?" if producer.get_type_name() == "Parameter" else re.escape(name)
    is_same = any(re.fullmatch(numbered, each) for each in names)
    return "" if is_same else f"its operand {name!r} is {listed(sorted(names)) or 'another'}"


# --- comparing it with the network that it was ----------------------------------------------------


_TOLERANCE = 1e-2
"""A fraction of an output's greatest magnitude. Larger differences are not due to the order of summation."""


def compare_network(model: Onnx, network: Network, feed: Feed) -> Verification:
    """Run a model in ONNX Runtime, or node by node where that is not installed, and its IR in OpenVINO.

    The IR runs in f32 on the CPU, with halfulp's operators and with OpenVINO's own, without special values. The result
    has a line for each output, and a difference if it is more than a hundredth of its greatest magnitude away.
    """
    from halfulp.integrations.openvino import put_into  # they import OpenVINO, which is installed
    from halfulp.integrations.openvino.engine import Compiled

    turns = {node.inputs[0] for node in model.graph.nodes if node.type == "Loop"}
    _, (run,) = runs(model)
    notes, differences = list[str](), list[str]()
    answer, own = dict[str, Array](), dict[str, Array]()

    # Both: OpenVINO refuses images that are smaller than a window, which ONNX Runtime takes.
    def in_both(inputs: Mapping[str, Any]) -> dict[str, Any]:
        outputs = run(inputs)
        for name in turns & inputs.keys():
            if (np.asarray(inputs[name]) < 0).any():
                raise ModelError("OpenVINO takes a negative number of turns as endless", got=name)
        exact = network.model.clone()
        notes.extend(put_into(exact))  # the nodes that stay OpenVINO's own all the same
        answer.update(Compiled(exact, network.file)(inputs))
        return outputs

    try:
        inputs, expected, told = feed.first(model, in_both)
    except (ModelError, UnsupportedError) as error:
        return Verification(engine="openvino", failure=error.line)
    try:
        own = Compiled(network.model, network.file)(inputs)
    except ModelError as error:
        notes.append(f"with OpenVINO's own operators it {error.message}")
    version, random = ir.openvino().__version__.partition("-")[0], drawing(model.graph.nodes)
    for name, right in expected.items():
        away, text = distance(right, answer.get(name))
        line = f"output {name!r} in openvino {version}: {text} with halfulp's operators"
        if own:
            away_by_own, text = distance(right, own.get(name))
            line = f"{line}, {text} with its own"
            if right.dtype.kind == "f":  # its own powers of integers saturate
                away = max(away, away_by_own)
        if away > _TOLERANCE and random and difference(right, run(inputs)[name]):
            away, line = 0, f"{line}; other numbers in each run, since node {random} draws them"
        (notes if away <= _TOLERANCE else differences).append(line)
    reasons = vacuous(expected)
    elements = sum(getattr(right, "size", 0) for name, right in expected.items() if name not in reasons)
    failure = nothing_told(expected, reasons) if not differences else ""
    return Verification(1, elements, tuple(differences), "openvino", told, failure, tuple(notes), reasons)
