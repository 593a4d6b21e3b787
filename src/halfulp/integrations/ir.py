"""OpenVINO's IR, an .xml file and the .bin beside it, as a graph: OpenVINO reads the file and checks it.

Some broken files end the process inside OpenVINO. Each file is read in a process of its own first.
"""

import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError, ModelError, UnsupportedError, printable, within
from halfulp.models.files import Source, opened, read_source
from halfulp.models.graph import Array, Graph, Model, Node, Value, describe, is_countable, unused
from halfulp.models.run.api import LAYERS, Origin
from halfulp.specs import find
from halfulp.types import TYPES, TensorType

ROWS = ("openvino.Power-1", "openvino.PReLU-1")  # the layers that are computed by their rows
_LARGEST_FILE = 1 << 28  # the largest models have .xml files of tens of megabytes
_SECONDS = 120.0  # the maximum time to read a file, on a busy machine
_MEMORY = 4 << 30  # the bytes that reading a file may allocate
# Elements. Larger constants of 4 bits stay OpenVINO's, because constants may overlap in the file.
_MOST_UNPACKED = 1 << 12
_DEEPEST = 16  # bodies within bodies

_TYPES = {row.openvino: row.name for row in TYPES.values() if row.openvino} | {"boolean": "bool"}
_ATTRIBUTES = ("auto_broadcast", "destination_type", "special_zero")

# Prints OpenVINO's error.
_CODE = """
import contextlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
from halfulp.integrations.openvino import core
with contextlib.suppress(ImportError, OSError, ValueError):  # this system has no such limit
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
try:
    core().read_model(sys.argv[3])
except Exception as error:
    sys.stdout.buffer.write(str(error).encode(errors="replace"))
"""


def openvino() -> Any:
    """Return the package; raises UnsupportedError if it is not installed."""
    try:
        return import_module("openvino")
    except ImportError as error:
        message = f"the openvino package reads and writes .xml, and can't be imported: {error}"
        raise UnsupportedError(message, expected="pip install 'halfulp[openvino]'") from None


def load(source: Source) -> Model:
    """Read an IR file as a graph, whose ``source`` is the :class:`Origin`; check its Power and PReLU by their rows.

    An input or output of the model has its tensor's name, and its other names as aliases. Any other value has its
    layer's name. Errors are those of :func:`read` too.
    """
    network, file = read(source)
    graph = graph_of(network)
    for node in graph.nodes:
        operands = [graph.declared[name] for name in node.inputs]
        if node.operator in ROWS and all(operand.type is not None for operand in operands):
            types = [TensorType(str(operand.type), operand.shape) for operand in operands]
            with within(file, node.label, kind="layer"):
                find(node.operator).infer(*types, **node.attributes)
    return Model(file, graph)


def read(source: Source, file: str | None = None) -> tuple[Any, str]:
    """Return the ``openvino.Model`` of a path, or of an .xml file's bytes without weights, and its name in messages.

    Raises:
        ModelError: OpenVINO refuses the file, crashes on it, or takes too much time or memory for it.
        UnsupportedError: OpenVINO is not installed.
    """
    openvino()
    from halfulp.integrations.openvino import core  # it imports OpenVINO
    from halfulp.integrations.openvino.engine import blaming

    data, name, path = read_source(source, _LARGEST_FILE, file)
    if b"<net" not in data:
        raise ModelError("not an OpenVINO IR", file=name, expected="<net>")
    if re.search(rb'<net\b[^>]*\sversion="[1-9]"', data[:4096]):
        message = "an IR of a version before 10, which OpenVINO does not read any more"
        raise ModelError(message, file=name, expected="convert the original model again, by ovc")
    with TemporaryDirectory(prefix="halfulp-") as folder:
        if path is None:
            path = Path(folder) / "model.xml"
            path.write_bytes(data)
        elif path.with_suffix(".bin").exists():
            with opened(path.with_suffix(".bin")):  # a pipe would block OpenVINO
                pass
        _try_to_read(path, name)
        with blaming(name):
            network = core().read_model(path)
    with within(name):
        for where, body in graphs(network):
            _check_sizes(body, name, where)
    if not network.get_results():
        raise ModelError("has no layer of the type Result, and so no output", file=name)
    return network, name


def _try_to_read(path: Path, file: str) -> None:
    """Read a file in a process of its own; raises ModelError if that crashes, or takes too much time or memory."""
    from halfulp.integrations.openvino.engine import blaming  # it imports OpenVINO

    command = [sys.executable, "-c", _CODE, json.dumps(sys.path), str(_MEMORY), str(path)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError(f"openvino takes more than {_SECONDS:.0f} s to read it", file=file) from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise ModelError(f"openvino crashes when it reads the file ({name})", file=file)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ModelError(f"openvino can't read the file: {printable(last, most=300)}", file=file)
    if done.stdout:
        with blaming(file):
            raise RuntimeError(done.stdout.decode(errors="replace"))


def graphs(network: Any, where: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield an ``openvino.Model`` and the bodies of its layers, each with the names of the layers around it."""
    from halfulp.integrations.openvino import bodies

    yield where, network
    for layer in network.get_ordered_ops():
        tags = ("then_body", "else_body") if layer.get_type_name() == "If" else ("body",)
        for tag, body in zip(tags, bodies(layer), strict=False):
            if depth == _DEEPEST:
                raise HalfulpError("its bodies nest too deep", expected=f"at most {_DEEPEST}")
            yield from graphs(body, f"{where}{_label(layer)}.{tag}.", depth + 1)


def graph_of(network: Any, where: str = "") -> Graph:
    """Return the graph of an ``openvino.Model`` or a body; ``where`` has the layers around it, for labels."""
    from halfulp.integrations.openvino import dims, place_of, type_of

    layers = [layer for layer in network.get_ordered_ops() if layer.get_type_name() != "Result"]
    inputs = [(layer, layer.output(0)) for layer in network.get_parameters()]
    results = [(layer, layer.input_value(0)) for layer in network.get_results()]
    ends = _named_ends(layers, [*inputs, *results])
    names = {place_of(end): name for name, end in ends.items()}
    shapes = {name: dims(end.get_partial_shape()) for name, end in ends.items()}
    declared = {name: Value(name, _TYPES.get(type_of(end)), shapes[name]) for name, end in ends.items()}
    constants, nodes = dict[str, Array](), list[Node]()
    for layer in layers:
        outputs = tuple(names[place_of(end)] for end in layer.outputs())
        if layer.get_type_name() == "Constant" and (array := _array(layer)) is not None:
            constants[outputs[0]] = array
        elif layer.get_type_name() != "Parameter":
            operands = tuple(names[place_of(end)] for end in layer.input_values())
            nodes.append(_node(layer, operands, outputs, where))

    def value(layer: Any, end: Any) -> Value:
        own = declared[names[place_of(end)]]
        aliases = dict.fromkeys((*_names(layer, end), end.get_node().get_friendly_name()))
        return replace(own, aliases=tuple(alias for alias in aliases if alias != own.name))

    face = tuple(starmap(value, inputs)), tuple(starmap(value, results))
    return Graph(*face, constants, tuple(nodes), declared, source=Origin(network, ends))


def _names(layer: Any, end: Any) -> tuple[str, ...]:
    """Return the names of an input or output of the model: the tensor's, and then that of its Parameter or Result."""
    return (*sorted(filter(None, end.get_names())), layer.get_friendly_name())


def _named_ends(layers: list[Any], faces: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Return the outputs of all layers by name: the tensor's name at an input or output of the model."""
    from halfulp.integrations.openvino import place_of

    wished = [(end, _names(layer, end)) for layer, end in faces]
    for layer in layers:
        name = layer.get_friendly_name()
        wished += [(end, (f"{name}.{n}" if (n := end.get_index()) else name,)) for end in layer.outputs()]
    ends, places = dict[str, Any](), dict[tuple[str, int], tuple[Any, tuple[str, ...]]]()
    for end, names in wished:
        places.setdefault(place_of(end), (end, names))
    for end, names in places.values():
        ends[next((name for name in names if name not in ends), unused(names[0], ends))] = end
    return ends


def _node(layer: Any, operands: tuple[str, ...], outputs: tuple[str, ...], where: str) -> Node:
    kind, version = layer.get_type_name().replace("PRelu", "PReLU"), layer.get_type_info().version_id
    opset = re.fullmatch(r"opset(\d+)", version)
    number = opset[1] if opset else "0"
    given = layer.get_attributes() if kind in LAYERS else {}
    attributes = {name: given[name] for name in _ATTRIBUTES if name in given}
    if "destination_type" in attributes:
        attributes["destination_type"] = _TYPES.get(attributes["destination_type"])
    operator = "openvino", "" if opset else version, kind, number, int(number)
    return Node(where + _label(layer), *operator, operands, outputs, attributes, source=layer)


def _check_sizes(network: Any, file: str, where: str) -> None:
    """Refuse constants whose bytes overflow 64 bits, and regions that are no channels, with which OpenVINO runs on."""
    for layer in network.get_ordered_ops():
        with within(file, where + _label(layer), kind="layer"):
            if layer.get_type_name() == "RegionYolo":
                _check_regions(layer)
            if layer.get_type_name() != "Constant":
                continue
            shape, kind = tuple(layer.get_output_shape(0)), layer.get_element_type()
            held = layer.get_byte_size()
            if not is_countable(shape) or -(-math.prod(shape) * kind.get_bitwidth() // 8) > held:
                got = f"{held} bytes for {describe(kind.get_type_name(), shape)}"
                raise HalfulpError("its shape contradicts its size", got=got)


def _check_regions(layer: Any) -> None:
    attributes, shape = layer.get_attributes(), layer.get_input_partial_shape(0)
    regions = attributes["num"] if attributes["do_softmax"] else len(attributes["mask"])
    counts = regions, attributes["classes"], attributes["coords"]
    channels = regions * (counts[1] + counts[2] + 1)
    fits = shape.rank.is_dynamic or shape[1].is_dynamic or shape[1].get_length() == channels
    if min(counts) < 0 or not fits:
        raise HalfulpError("its regions contradict its channels", expected=channels, got=shape)


def _array(layer: Any) -> Array | None:
    """Return the values of a Constant, which are not copied; None for types that halfulp lacks."""
    from halfulp.integrations.openvino import ROWS, array_of, type_of

    kind = type_of(layer)
    if kind == "boolean":
        return np.asarray(layer.data, bool)
    row = ROWS.get(kind)
    if row is None or (row.bits < 8 and math.prod(layer.get_output_shape(0)) > _MOST_UNPACKED):
        return None
    array = array_of(layer)
    array.flags.writeable = False
    return array


def _label(layer: Any) -> str:
    kind = layer.get_type_name().replace("PRelu", "PReLU")
    return f"'{printable(layer.get_friendly_name())}' ({printable(kind)})"
