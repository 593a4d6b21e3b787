"""OpenVINO with exact Power and PReLU: halfulp's operators take their place in an openvino.Model, for the CPU plugin.

The plugin computes f64 in f32, and i64 and u64 in i32. A mark (:mod:`halfulp.integrations.openvino.mark`) keeps a
node from that. So tensors of these types are followed from each operator of halfulp to the ends of where the mark is
heeded, and all nodes on the way are marked. 64-bit integers that one operator of halfulp hands to the next are
disguised as i32. Where a node on the way would narrow a tensor all the same, all nodes that these tensors connect stay
OpenVINO's own, and :func:`put_into` names them.

It holds f16, and on some processors bf16, in f32. That loses no more than the payload of a NaN, and the mark keeps
inputs of the model from it that no other operator takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
import openvino as ov
from openvino.utils import replace_node

from halfulp.errors import HalfulpError, ModelError, SpecError, UnsupportedError
from halfulp.integrations.openvino.mark import constant_node, keeps_wide_types, mark
from halfulp.integrations.openvino.native import is_exact, varying
from halfulp.integrations.openvino.operators import (
    OPERATORS,
    ROWS,
    WIDE,
    HalfulpConvert,
    HalfulpPower,
    HalfulpPReLU,
    array_of,
)

__all__ = ["replace"]

# They move elements of any type untouched: their first input, by the others.
_MOVERS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Transpose"})

_OURS = {"Power": HalfulpPower, "PRelu": HalfulpPReLU, "Convert": HalfulpConvert}
_NAMES = frozenset(kind.__name__ for kind in OPERATORS)
_ATTRIBUTES = ("auto_broadcast", "destination_type")


def replace(model: ov.Model, *, every_node: bool = False) -> ov.Model:
    """Put halfulp's Power and PReLU into an ``openvino.Model``, in place; compile it for the CPU, in f32.

    Args:
        model: read from any format, or built. Each Power-1 and PReLU-1 that the CPU plugin does not compute exactly
            itself becomes halfulp's, in the bodies of If, Loop and TensorIterator, too; so does a Convert from or to
            f64, i64 or u64 beside them.
        every_node: whether those that the plugin computes exactly in f32, by
            :mod:`halfulp.integrations.openvino.native`, become halfulp's, too.

    Returns:
        The same model. Where a tensor arrives at halfulp's operators in a type that can't hold what the model
        declares, as on other devices, the inference raises and says so.

    Warns:
        UserWarning: nodes stay OpenVINO's own, each with the reason: this version of OpenVINO can't keep f64, i64
            or u64, or the tensors of these types meet an operator that narrows them.

    Raises:
        ModelError: a node breaks a clause of its operator's version.

    Example:
        >>> from openvino import opset13
        >>> x = opset13.parameter([2], np.int64)
        >>> model = replace(ov.Model([opset13.power(x, np.int64(3))], [x]))
        >>> ov.Core().compile_model(model, "CPU")([np.array([-3, 2097151])])[0]
        array([                -27, 9223358842721533951])
    """
    left = put_into(model, every_node=every_node)
    if left:
        warnings.warn("\n".join(left), stacklevel=2)
    return model


def put_into(model: ov.Model, *, every_node: bool = False) -> list[str]:
    """Do what :func:`replace` does, and return a sentence for each node that stays OpenVINO's own.

    Raises:
        ModelError: as for :func:`replace`.
    """
    left = _replace(model, every_node, is_body=False)
    members = {node.get_name() for node in model.get_ordered_ops()}
    for parameter in model.get_parameters():
        if _type(parameter.output(0)) in ("f16", "bf16") and _stays_ours(parameter.output(0), members):
            mark(parameter)
    return left


def _replace(model: ov.Model, every_node: bool, *, is_body: bool) -> list[str]:
    """Replace the nodes of a model and of its bodies, and return a sentence for each that stays OpenVINO's own."""
    left: list[str] = []
    computed = (
        frozenset() if every_node else varying(model)
    )  # what is folded is not computed by the same code
    wanted: dict[str, Any] = {}
    for node in model.get_ordered_ops():
        for body in _bodies(node):
            left += _replace(body, every_node, is_body=True)
        if node.get_type_name() not in ("Power", "PRelu") or node.get_type_info().version_id != "opset1":
            continue
        if node.get_name() in computed and is_exact(node):
            continue
        unknown = _unknown_type(node)
        if unknown:
            left.append(f"{_label(node)} stays OpenVINO's own: halfulp has no type {unknown}")
        else:
            wanted[node.get_name()] = node
    wide = _Wide(model, wanted)
    for node in list(wanted.values()):
        left += wide.enter(node, is_body=is_body)
    # Only now is anything changed: what halfulp could not keep is known.
    made = {name: _substitute(node) for name, node in wide.substituted()}
    _keep(model, {made[name].get_name() if name in made else name for name in wide.kept})
    return left


def _keep(model: ov.Model, names: Set[str]) -> None:
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
                if _type(end) in WIDE and source.get_type_name() == "Constant":
                    # A copy: the constant itself may feed nodes that want it narrowed.
                    copy = constant_node(array_of(source), source.get_friendly_name())
                    end.replace_source_output(copy.output(0))
    for node in model.get_ordered_ops():
        if node.get_name() in names and node.get_type_name() in _MOVERS | _NAMES:
            _fold(node)
    # By these, not by what an end's get_node gives, which is an object without our methods.
    members = {node.get_name(): node for node in model.get_ordered_ops()}
    for name, node in list(members.items()):
        if name in names and _is_ours(node) and _type(node.output(0)) in ("i64", "u64"):
            _carry(node, members)
    model.validate_nodes_and_infer_types()


def _stays_ours(output: Any, members: Set[str]) -> bool:
    """Return whether a tensor, and what operators of ours make of it, goes only to them and to the model's outputs.

    Elsewhere such a tensor would meet others in f32.
    """
    for end in output.get_target_inputs():
        node = end.get_node()
        if node.get_name() not in members or node.get_type_name() == "Result":
            continue
        # The result's type is the first operand's.
        if not _is_ours(node) or (end.get_index() == 0 and not _stays_ours(node.output(0), members)):
            return False
    return True


class _Wide:
    """Finds the nodes that keep the wide types, from node to node along such tensors, and changes none.

    Args:
        model: as it was read.
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
            wide = [_type(end) for end in (*start.inputs(), *start.outputs()) if _type(end) in WIDE]
            if not wide or start.get_name() in self._seen or _unknown_type(start):
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
            left += [f"{_label(self._members[name])} stays OpenVINO's own: {why}" for name in asked]
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
            if _type(end) not in WIDE or kind == "Constant":
                continue
            if kind == "Parameter" or self._carries(source):
                yield source, ""
            else:
                way = f"a tensor of {_type(end)} comes from {_label(source)}"
                yield source, f"{way}, which the CPU plugin computes in less"

    def _downstream(self, node: Any) -> Iterator[tuple[Any, str]]:
        for end in [end for output in node.outputs() for end in output.get_target_inputs()]:
            target, kind = end.get_node(), _type(end)
            # A node that was replaced still counts as a consumer while Python holds it.
            if kind not in WIDE or target.get_name() not in self._members:
                continue
            becomes_ours, is_result = self._becomes_ours(target), target.get_type_name() == "Result"
            if self._becomes_ours(node) and kind != "f64" and not becomes_ours and not is_result:
                # Mark or no mark, the plugin puts a conversion to i32 there.
                way = f"a tensor of {kind} goes from {_label(node)} to {_label(target)}"
                yield target, f"{way}; it is kept only to a model's output, a Convert or a Power"
            elif becomes_ours or (self._carries(target) and end.get_index() == 0):
                yield target, ""
            elif not is_result and target.get_type_name() != "ShapeOf":
                way = f"a tensor of {kind} goes to {_label(target)}"
                yield target, f"{way}, which the CPU plugin computes in less"

    def _constant_obstacle(self, node: Any) -> str:
        """Return why a node of constant operands can't be computed in advance; left to the plugin, it would narrow."""
        kind = next((_type(end) for end in node.outputs() if _type(end) in WIDE), "")
        if not kind or node.get_type_name() == "Parameter":
            return ""
        if node.get_name() in self._folded:
            readers = [end.get_node() for end in node.output(0).get_target_inputs()]
            if any(reader.get_type_name() == "Result" for reader in readers):
                return f"a tensor of {kind} is a constant output of the model, by {_label(node)}"
        elif not self._becomes_ours(node) and self._is_constant(node.input_value(0).get_node()):
            return f"a tensor of {kind} is a constant that {_label(node)} moves as others say"
        return ""

    def _is_constant(self, node: Any) -> bool:
        return node.get_type_name() == "Constant" or node.get_name() in self._folded

    def _carries(self, node: Any) -> bool:
        return self._becomes_ours(node) or node.get_type_name() in _MOVERS

    def _becomes_ours(self, node: Any) -> bool:
        if node.get_type_name() == "Convert":
            return not _unknown_type(node)
        return node.get_name() in self._wanted or _is_ours(node)


def _moved_inputs(node: Any) -> list[Any]:
    """Return the inputs whose elements a node takes: the others of a mover say where to, not what."""
    inputs: list[Any] = node.inputs()
    return inputs[:1] if node.get_type_name() in _MOVERS else inputs


def _unknown_type(node: Any) -> str:
    """Return the first type of a node's inputs and outputs that halfulp has not, or nothing."""
    return next((_type(end) for end in (*node.inputs(), *node.outputs()) if _type(end) not in ROWS), "")


def _substitute(node: Any) -> Any:
    """Put an operator of halfulp in a node's place and return it."""
    known = node.get_attributes()
    attributes = {name: str(known[name]) for name in _ATTRIBUTES if name in known}
    operands = ",".join(map(_type, node.inputs()))
    try:
        ours = _OURS[node.get_type_name()](node.input_values(), operands=operands, **attributes)
    except HalfulpError as error:
        clause = error.clause if isinstance(error, SpecError) else None
        shown: dict[str, Any] = error.shown
        raise ModelError(error.message, node=_label(node), clause=clause, **shown) from None
    ours.set_friendly_name(node.get_friendly_name())
    replace_node(node, ours)
    return ours


def _fold(node: Any) -> None:
    """Compute a node of constant operands: were it left to the plugin, the result would lose its mark."""
    sources = [value.get_node() for value in node.input_values()]
    if all(source.get_type_name() == "Constant" for source in sources):
        values = node.compute(*map(array_of, sources)) if _is_ours(node) else _moved(node, sources)
        replace_node(node, constant_node(np.asarray(values), node.get_friendly_name()))


def _carry(node: Any, members: Mapping[str, Any]) -> None:
    """Let 64-bit integers go from one operator of ours to the next as i32, which the plugin does not touch."""
    output = node.output(0)
    ends = [(end, members.get(end.get_node().get_name())) for end in output.get_target_inputs()]
    results = [end for end, target in ends if target is not None and not _is_ours(target)]
    ours = [(end, target) for end, target in ends if target is not None and _is_ours(target)]
    if not ours:
        return
    kind, names = _type(output), output.get_names()
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


def _moved(node: Any, sources: list[Any]) -> Any:
    outputs = [ov.Tensor(node.get_output_element_type(0), ov.Shape())]
    if not node.evaluate(outputs, [source.get_tensor_view() for source in sources]):
        raise UnsupportedError(f"OpenVINO does not compute {_label(node)} of constants")
    return array_of(outputs[0])


def _bodies(node: Any) -> Iterator[ov.Model]:
    """Yield the models inside of a node."""
    kind = node.get_type_name()
    if kind == "If":
        yield from (node.get_function(index) for index in range(2))
    elif kind in ("Loop", "TensorIterator"):
        yield node.get_function()


def _is_ours(node: Any) -> bool:
    return node.get_type_name() in _NAMES


def _type(end: Any) -> str:
    name: str = end.get_element_type().get_type_name()
    return name


def _label(node: Any) -> str:
    return f"{node.get_friendly_name()!r} ({node.get_type_name()})"
