"""Keeping f64, i64 and u64 through the CPU plugin, which would compute them in f32 and i32.

The plugin heeds an attribute that keeps a node's types, called a mark here. Python can't make one, but reading a model
that carries it gives one to copy. Tensors of these types are followed from each operator of halfulp as far as the mark
is heeded, and all nodes on the way are marked. 64-bit integers that one operator of halfulp passes to the next are
disguised as i32. Where a node on the way would narrow a tensor all the same, all nodes that these tensors connect stay
OpenVINO's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import cache
from typing import Any

import numpy as np
import openvino as ov
from openvino.utils import replace_node

from halfulp.errors import UnsupportedError
from halfulp.integrations.openvino.operators import (
    WIDE,
    HalfulpConvert,
    HalfulpPower,
    array_of,
    core,
    is_ours,
    label,
    tensor_of,
    type_of,
    unknown_type,
)

# They move elements of any type untouched: their first input, by the others.
_MOVERS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Transpose"})

_KEY = "DisablePrecisionConversion_0"

_CARRIER = """<net name="carrier" version="11">
  <layers>
    <layer id="0" name="x" type="Parameter" version="opset1">
      <data shape="1" element_type="f32"/>
      <rt_info><attribute name="DisablePrecisionConversion" version="0" value="dynamic:dynamic"/></rt_info>
      <output><port id="0" precision="FP32"><dim>1</dim></port></output>
    </layer>
    <layer id="1" name="y" type="Result" version="opset1">
      <input><port id="0" precision="FP32"><dim>1</dim></port></input>
    </layer>
  </layers>
  <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>
</net>"""


@cache
def _attribute() -> Any:
    """Return the plugin's attribute, or None where this version has none."""
    (x,) = core().read_model(_CARRIER.encode(), b"").get_parameters()
    info = x.get_rt_info()
    return info[_KEY] if _KEY in list(info.keys()) else None


def mark(node: Any) -> None:
    """Have a node keep its types; nothing where this version can't."""
    if _attribute() is not None:
        node.set_rt_info(_attribute(), _KEY)


def constant_node(values: Any, name: str) -> Any:
    """Return a Constant of these values, marked."""
    constant = ov.opset13.constant(tensor_of(values))
    constant.set_friendly_name(name)
    mark(constant)
    return constant


@cache
def keeps_wide_types() -> bool:
    """Return whether the installed version keeps f64, i64 and u64: whether some values pass it bit for bit."""
    numbers = (np.array([1e300, 1 / 3, -np.inf]), np.array([2**63 - 1, -5, 1 << 40]))
    for values in (*numbers, np.array([2**64 - 1, 5, 1 << 40], np.uint64)):
        ones = constant_node(np.ones_like(values), "one")
        x = ov.opset13.parameter([3], values.dtype)
        kind = tensor_of(values).element_type.get_type_name()
        power = HalfulpPower([x.output(0), ones.output(0)], operands=f"{kind},{kind}", auto_broadcast="numpy")
        mark(x)
        mark(power)
        try:
            (got,) = core().compile_model(ov.Model([power], [x]), "CPU")([values]).values()
        except RuntimeError:  # the operator's own: what arrived was narrower
            return False
        if got.tobytes() != values.tobytes():
            return False
    return True


class WideTensors:
    """Finds the nodes that keep the wide types, from node to node along such tensors, and changes none.

    Args:
        model: before any change.
        wanted: its nodes that are to become halfulp's, by name; those that can't are taken out.
    """

    def __init__(self, model: ov.Model, wanted: dict[str, Any]) -> None:
        self.kept: dict[str, None] = {}  # in order
        self._wanted = wanted
        self._members = {node.get_name(): node for node in model.get_ordered_ops()}
        self._seen: set[str] = set()
        self._folded: set[str] = set()
        for name, node in self._members.items():
            sources = [value.get_node() for value in node.input_values()]
            if self._carries(node) and sources and all(map(self._is_constant, sources)):
                self._folded.add(name)

    def enter(self, node: Any, *, is_body: bool) -> list[str]:
        """Follow the wide tensors of a node that is wanted, and of Converts that feed it.

        Returns:
            A sentence for each node that has to stay OpenVINO's own.
        """
        left = []
        feeding = [value.get_node() for value in node.input_values()]
        converts = [source for source in feeding if source.get_type_name() == "Convert"]
        for start in (node, *converts):
            wide = [type_of(end) for end in (*start.inputs(), *start.outputs()) if type_of(end) in WIDE]
            if not wide or start.get_name() in self._seen or unknown_type(start):
                continue
            if is_body:
                found, why = {start.get_name(): None}, f"a tensor of {wide[0]} inside of a body is narrowed"
            elif not keeps_wide_types():
                why = f"OpenVINO {ov.__version__} keeps no tensor of {wide[0]}; 2026.3 and later do"
                found = {start.get_name(): None}
            else:
                found, why = self._connected(start)
            self._seen.update(found)
            if not why:
                self.kept |= found
                continue
            asked = [name for name in found if self._wanted.pop(name, None) is not None] or [start.get_name()]
            left += [f"{label(self._members[name])} stays OpenVINO's own: {why}" for name in asked]
        return left

    def substituted(self) -> Iterator[tuple[str, Any]]:
        """Yield the nodes that become halfulp's, with their names."""
        yield from self._wanted.items()
        for name in self.kept:
            if self._members[name].get_type_name() == "Convert":
                yield name, self._members[name]

    def _connected(self, start: Any) -> tuple[dict[str, None], str]:
        """Return the names of the nodes that wide tensors connect with one, and why they can't keep these types."""
        found = {start.get_name(): None}
        queue = [start]
        whys: list[str] = []
        while queue:
            node = queue.pop()
            whys += filter(None, [self._constant_obstacle(node)])
            for neighbour, why in (*self._upstream(node), *self._downstream(node)):
                if why:
                    whys.append(why)
                elif neighbour.get_name() not in found:
                    found[neighbour.get_name()] = None
                    queue.append(neighbour)
        return found, min(whys, default="")

    def _upstream(self, node: Any) -> Iterator[tuple[Any, str]]:
        for end in _moved_inputs(node):
            source = end.get_source_output().get_node()
            kind = source.get_type_name()
            if type_of(end) not in WIDE or kind == "Constant":
                continue
            if kind == "Parameter" or self._carries(source):
                yield source, ""
            else:
                way = f"a tensor of {type_of(end)} comes from {label(source)}"
                yield source, f"{way}, which the CPU plugin computes in less"

    def _downstream(self, node: Any) -> Iterator[tuple[Any, str]]:
        for end in [end for output in node.outputs() for end in output.get_target_inputs()]:
            target, kind = end.get_node(), type_of(end)
            # A node that was replaced still counts as a consumer while Python holds it.
            if kind not in WIDE or target.get_name() not in self._members:
                continue
            becomes_ours, is_result = self._becomes_ours(target), target.get_type_name() == "Result"
            if self._becomes_ours(node) and kind != "f64" and not becomes_ours and not is_result:
                # Mark or no mark, the plugin puts a conversion to i32 there.
                way = f"a tensor of {kind} goes from {label(node)} to {label(target)}"
                yield target, f"{way}; it is kept only to a model's output, a Convert or a Power"
            elif becomes_ours or (self._carries(target) and end.get_index() == 0):
                yield target, ""
            elif not is_result and target.get_type_name() != "ShapeOf":
                way = f"a tensor of {kind} goes to {label(target)}"
                yield target, f"{way}, which the CPU plugin computes in less"

    def _constant_obstacle(self, node: Any) -> str:
        """Return why a node of constant operands can't be computed in advance; left to the plugin, it would narrow."""
        kind = next((type_of(end) for end in node.outputs() if type_of(end) in WIDE), "")
        if not kind or node.get_type_name() == "Parameter":
            return ""
        if node.get_name() in self._folded:
            readers = [end.get_node() for end in node.output(0).get_target_inputs()]
            if any(reader.get_type_name() == "Result" for reader in readers):
                return f"a tensor of {kind} is a constant output of the model, by {label(node)}"
        elif not self._becomes_ours(node) and self._is_constant(node.input_value(0).get_node()):
            return f"a tensor of {kind} is a constant that {label(node)} moves as others say"
        return ""

    def _is_constant(self, node: Any) -> bool:
        return node.get_type_name() == "Constant" or node.get_name() in self._folded

    def _carries(self, node: Any) -> bool:
        return self._becomes_ours(node) or node.get_type_name() in _MOVERS

    def _becomes_ours(self, node: Any) -> bool:
        if node.get_type_name() == "Convert":
            return not unknown_type(node)
        return node.get_name() in self._wanted or is_ours(node)


def keep(model: ov.Model, names: Set[str]) -> None:
    """Have nodes keep the wide types.

    Args:
        model: the nodes that become halfulp's are in it.
        names: of all nodes that such tensors go through.
    """
    if not names:
        return
    for node in model.get_ordered_ops():
        if node.get_name() in names:
            mark(node)
            for end in _moved_inputs(node):
                source = end.get_source_output().get_node()
                if type_of(end) in WIDE and source.get_type_name() == "Constant":
                    # A copy: the constant itself may feed nodes that want it narrowed.
                    copy = constant_node(array_of(source), source.get_friendly_name())
                    end.replace_source_output(copy.output(0))
    for node in model.get_ordered_ops():
        if node.get_name() in names and (is_ours(node) or node.get_type_name() in _MOVERS):
            _fold(node)
    # By these, not by what an end's get_node gives, which is an object without our methods.
    members = {node.get_name(): node for node in model.get_ordered_ops()}
    for name, node in list(members.items()):
        if name in names and is_ours(node) and type_of(node.output(0)) in ("i64", "u64"):
            _carry(node, members)
    model.validate_nodes_and_infer_types()


def _moved_inputs(node: Any) -> list[Any]:
    """Return the inputs whose elements a node takes: the others of a mover say where to, not what."""
    inputs: list[Any] = node.inputs()
    return inputs[:1] if node.get_type_name() in _MOVERS else inputs


def _fold(node: Any) -> None:
    """Compute a node of constant operands: were it left to the plugin, the result would lose its mark."""
    sources = [value.get_node() for value in node.input_values()]
    if all(source.get_type_name() == "Constant" for source in sources):
        values = node.compute(*map(array_of, sources)) if is_ours(node) else _moved(node, sources)
        replace_node(node, constant_node(np.asarray(values), node.get_friendly_name()))


def _moved(node: Any, sources: list[Any]) -> Any:
    outputs = [ov.Tensor(node.get_output_element_type(0), ov.Shape())]
    if not node.evaluate(outputs, [source.get_tensor_view() for source in sources]):
        raise UnsupportedError(f"OpenVINO does not compute {label(node)} of constants")
    return array_of(outputs[0])


def _carry(node: Any, members: Mapping[str, Any]) -> None:
    """Let one operator of halfulp pass 64-bit integers to the next as i32, which the plugin does not touch."""
    output = node.output(0)
    ends = [(end, members.get(end.get_node().get_name())) for end in output.get_target_inputs()]
    results = [end for end, target in ends if target is not None and not is_ours(target)]
    ours = [(end, target) for end, target in ends if target is not None and is_ours(target)]
    if not ours:
        return
    kind, names = type_of(output), output.get_names()
    node.carry("out")
    node.constructor_validate_and_infer_types()
    for end, target in ours:
        target.carry(str(end.get_index()))
    if results:
        last = HalfulpConvert([output], operands=kind, carried="0", destination_type=kind)
        last.set_friendly_name(node.get_friendly_name())
        output.get_tensor().set_names(set())
        last.output(0).get_tensor().set_names(names)
        mark(last)
        for end in results:
            end.replace_source_output(last.output(0))
