"""OpenVINO with exact Power and PReLU: both in an openvino.Model become ours, for the CPU plugin.

The plugin computes f64 in f32, and i64 and u64 in i32. A mark (:mod:`halfulp.integrations.openvino.mark`) keeps a
node from that. So tensors of these types are followed from each operator of ours to the ends of where the mark is
heeded, and all on the way gets it. 64-bit integers that one operator of ours hands to the next are disguised as i32.
Where something on the way would narrow a tensor all the same, the model is refused.

It holds f16, and on some processors bf16, in f32. That loses no more than the payload of a NaN, and the mark keeps
inputs of the model from it that no other operator takes.
"""

from __future__ import annotations

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

_OURS = {"Power": HalfulpPower, "PRelu": HalfulpPReLU}
_NAMES = frozenset(kind.__name__ for kind in OPERATORS)
_ATTRIBUTES = ("auto_broadcast", "destination_type")


def replace(model: ov.Model, *, every_node: bool = False) -> ov.Model:
    """Put our Power and PReLU into an ``openvino.Model``, in place; compile it for the CPU, in f32.

    Args:
        model: read from any format, or built. Each Power-1 and PReLU-1 that the CPU plugin does not compute exactly
            itself becomes ours, in the bodies of If, Loop and TensorIterator, too; so does a Convert from or to f64,
            i64 or u64 beside them.
        every_node: whether those that the plugin computes exactly in f32, by
            :mod:`halfulp.integrations.openvino.native`, become ours, too.

    Returns:
        The same model. Where a tensor arrives at our operators in a type that can't hold what the model
        declares, as on other devices, the inference raises and says so.

    Raises:
        ModelError: a node breaks a clause of its operator's version.
        UnsupportedError: this version of OpenVINO can't keep f64, i64 or u64, or the tensors of these types
            meet an operator that narrows them, by name. The model may have been changed in part.

    Example:
        >>> from openvino import opset13
        >>> x = opset13.parameter([2], np.int64)
        >>> model = replace(ov.Model([opset13.power(x, np.int64(3))], [x]))
        >>> ov.Core().compile_model(model, "CPU")([np.array([-3, 2097151])])[0]
        array([                -27, 9223358842721533951])
    """
    _replace(model, every_node, is_body=False)
    members = {node.get_name() for node in model.get_ordered_ops()}
    for parameter in model.get_parameters():
        if _type(parameter.output(0)) in ("f16", "bf16") and _stays_ours(parameter.output(0), members):
            mark(parameter)
    return model


def _replace(model: ov.Model, every_node: bool, *, is_body: bool) -> None:
    wide: list[Any] = []
    computed = (
        frozenset() if every_node else varying(model)
    )  # what is folded is not computed by the same code
    for node in model.get_ordered_ops():
        for body in _bodies(node):
            _replace(body, every_node, is_body=True)
        kind = node.get_type_name()
        if kind not in _OURS or node.get_type_info().version_id != "opset1":
            continue
        if not (node.get_name() in computed and is_exact(node)):
            wide += _wide_ends(_substitute(node, _OURS[kind]))
    if not wide:
        return
    kind = _type(wide[0])
    if is_body:
        raise _narrowed(kind, f"is in {_label(wide[0].get_node())} inside of a body, where it is narrowed")
    if not keeps_wide_types():
        raise _narrowed(kind, f"is more than OpenVINO {ov.__version__} keeps; 2026.3 and later do")
    _Marking(model, [end.get_node() for end in wide]).run()
    for node in model.get_ordered_ops():
        if node.get_type_name() in _MOVERS | _NAMES and _wide_ends(node):
            _fold(node)
    # By these, not by what an end's get_node gives, which is an object without our methods.
    members = {node.get_name(): node for node in model.get_ordered_ops()}
    for node in list(members.values()):
        if _is_ours(node) and _type(node.output(0)) in ("i64", "u64"):
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


def _wide_ends(node: Any) -> list[Any]:
    """Return the inputs and outputs of the wide types: of a new node of ours, and of Converts that feed it."""
    feeding = [value.get_node() for value in node.input_values()]
    converts = [source for source in feeding if source.get_type_name() == "Convert"]
    ends = [*node.inputs(), *node.outputs(), *(source.input(0) for source in converts)]
    return [end for end in ends if _type(end) in WIDE]


class _Marking:
    """Go from node to node along tensors of the wide types, and mark each."""

    def __init__(self, model: ov.Model, nodes: list[Any]) -> None:
        # A node that was replaced still counts as a consumer while Python holds it.
        self._members = {node.get_name() for node in model.get_ordered_ops()}
        self._queue: list[Any] = []
        self._seen: set[str] = set()
        for node in nodes:
            self._enter(node)

    def run(self) -> None:
        """Mark all that these tensors reach.

        Raises:
            UnsupportedError: that is an operator that narrows them.
        """
        while self._queue:
            node = self._queue.pop()
            mark(node)
            # The other inputs of a mover say where to, not what.
            for end in node.inputs()[:1] if node.get_type_name() in _MOVERS else node.inputs():
                if _type(end) in WIDE:
                    self._upstream(end)
            for output in node.outputs():
                if _type(output) in WIDE:
                    for end in list(output.get_target_inputs()):
                        self._downstream(end, node)

    def _upstream(self, end: Any) -> None:
        node = end.get_source_output().get_node()
        if node.get_type_name() == "Constant":
            # A copy: the constant itself may feed nodes that want it narrowed.
            end.replace_source_output(constant_node(array_of(node), node.get_friendly_name()).output(0))
        elif not (node.get_type_name() == "Parameter" or _carries(node)):
            raise _narrowed(_type(end), f"comes from {_label(node)}, which the CPU plugin computes in less")
        else:
            self._enter(node)

    def _downstream(self, end: Any, source: Any) -> None:
        node = end.get_node()
        if node.get_name() not in self._members:
            return
        taken = _is_ours(node) or node.get_type_name() in ("Convert", "Result")
        if _is_ours(source) and _type(end) in ("i64", "u64") and not taken:
            # Mark or no mark, the plugin puts a conversion to i32 there.
            raise _narrowed(
                _type(end),
                f"goes from {_label(source)} to {_label(node)}; it is kept only to a model's output, a Convert or"
                " a Power",
            )
        if _carries(node) and (end.get_index() == 0 or _is_ours(node)):
            self._enter(node)
        elif node.get_type_name() not in ("Result", "ShapeOf"):
            raise _narrowed(_type(end), f"goes to {_label(node)}, which the CPU plugin computes in less")

    def _enter(self, node: Any) -> None:
        if node.get_type_name() == "Convert":
            self._members.discard(node.get_name())
            node = _substitute(node, HalfulpConvert)
            self._members.add(node.get_name())
        if node.get_name() not in self._seen:
            self._seen.add(node.get_name())
            self._queue.append(node)


def _substitute(node: Any, kind: type[Any]) -> Any:
    """Put an operator of ours in a node's place and return it."""
    label = _label(node)
    types = [_type(end) for end in node.inputs()]
    for name in [*types, *map(_type, node.outputs())]:
        if name not in ROWS:
            raise UnsupportedError(f"{label} has the type {name}, which is not done here", got=name)
    known = node.get_attributes()
    attributes = {name: str(known[name]) for name in _ATTRIBUTES if name in known}
    try:
        ours = kind(node.input_values(), operands=",".join(types), **attributes)
    except HalfulpError as error:
        clause = error.clause if isinstance(error, SpecError) else None
        shown: dict[str, Any] = error.shown
        raise ModelError(error.message, node=label, clause=clause, **shown) from None
    ours.set_friendly_name(node.get_friendly_name())
    replace_node(node, ours)
    return ours


def _fold(node: Any) -> None:
    """Compute a node of constant operands: were it left to the plugin, the result would lose its mark.

    Raises:
        UnsupportedError: that is no constant yet, or the plugin would narrow it on its way to the model's output.
    """
    sources = [value.get_node() for value in node.input_values()]
    are_constant = [source.get_type_name() == "Constant" for source in sources]
    if all(are_constant):
        values = node.compute(*map(array_of, sources)) if _is_ours(node) else _moved(node, sources)
        constant = constant_node(np.asarray(values), node.get_friendly_name())
        ends = list(node.output(0).get_target_inputs())
        if _type(constant.output(0)) in WIDE and any(
            end.get_node().get_type_name() == "Result" for end in ends
        ):
            raise _narrowed(
                _type(constant.output(0)), f"is a constant output of the model, by {_label(node)}"
            )
        replace_node(node, constant)
    elif are_constant[0] and not _is_ours(node):
        raise _narrowed(_type(node.output(0)), f"is a constant that {_label(node)} moves as others say")


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
        raise _narrowed(_type(node.output(0)), f"is a constant that {_label(node)} moves")
    return array_of(outputs[0])


def _bodies(node: Any) -> Iterator[ov.Model]:
    """Yield the models inside of a node."""
    kind = node.get_type_name()
    if kind == "If":
        yield from (node.get_function(index) for index in range(2))
    elif kind in ("Loop", "TensorIterator"):
        yield node.get_function()


def _carries(node: Any) -> bool:
    return _is_ours(node) or node.get_type_name() == "Convert" or node.get_type_name() in _MOVERS


def _is_ours(node: Any) -> bool:
    return node.get_type_name() in _NAMES


def _type(end: Any) -> str:
    name: str = end.get_element_type().get_type_name()
    return name


def _label(node: Any) -> str:
    return f"{node.get_friendly_name()!r} ({node.get_type_name()})"


def _narrowed(kind: str, why: str) -> UnsupportedError:
    return UnsupportedError(f"a tensor of {kind} {why}")
