"""A graph of no format to a graph of OpenVINO's operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.conversion.between import OPENVINO, Draft
from halfulp.conversion.editor import Change, NoExactForm, exactly_as, holds, is_one
from halfulp.conversion.targets import departs, known_targets, lost, widens_base, wider
from halfulp.errors import UnsupportedError, printable, within
from halfulp.models.graph import Array, Model, Node, Value
from halfulp.models.openvino.operators import OPENVINO_TYPES
from halfulp.types import TYPES

_NAMES = {kind: name for name, kind in OPENVINO.items()}


def write(model: Model, changes: list[Change]) -> Model:
    """Return the OpenVINO model of a neutral one. Casts for types that an operator lacks are noted.

    Raises:
        UnsupportedError: a type that OpenVINO lacks, or an operator has no exact form for, naming the node.
    """
    return _Writer(model, changes).model()


class _Writer:
    """Writes one graph. New values go into the draft, which infers their types."""

    def __init__(self, model: Model, changes: list[Change]) -> None:
        self._draft = Draft(model, changes)
        self._nodes: list[Node] = []
        self._target = known_targets()["openvino"]

    def model(self) -> Model:
        draft = self._draft
        symbols = sorted({dim for v in draft.inputs for dim in v.shape or () if isinstance(dim, str)})
        if symbols:
            draft.note(draft.file, f"OpenVINO has no names for dims: {', '.join(symbols)} become ?")
        for name in draft.defaults:
            draft.note(draft.file, f"OpenVINO has no inputs with defaults: {printable(name)!r} loses its own")
        for node in tuple(draft.nodes):
            with within(draft.file, node.label):
                self._write(node)
        for name, kind in draft.types.items():
            if kind.type not in OPENVINO_TYPES:
                raise UnsupportedError(
                    f"{draft.file}: OpenVINO has no type {kind.type}, which {printable(name)!r} is of"
                )
        draft.inputs = [Value(v.name, v.type, v.shape) for v in draft.inputs]
        draft.outputs = [Value(v.name, *draft.types[v.name]) for v in draft.outputs]
        draft.nodes, draft.defaults, draft.types = self._nodes, {}, {}
        return draft.model()

    def _add(
        self, kind: str, inputs: tuple[str, ...], like: Node, output: str | None = None, **attributes: Any
    ) -> str:
        """Add an operator as OpenVINO spells it, and return its output's name: a new one where none is given.

        The kind and attributes are those of neutral graphs. ``like`` is the node that the operator replaces.
        """
        if kind not in _NAMES:
            raise NoExactForm(f"{kind.lower()} is none of OpenVINO's layers that are written here")
        name = output or self._draft.add(kind, inputs, like.label, **attributes)
        match kind:
            case "Reshape":
                inputs = (*inputs, self._constant(np.array(attributes["shape"], np.int64), name))
                attributes = {"special_zero": True}
            case "Unsqueeze":
                inputs, attributes = (
                    (*inputs, self._constant(np.array(attributes["axes"], np.int64), name)),
                    {},
                )
            case "Cast":
                attributes = {"destination_type": attributes["to"]}
            case "PRelu":
                pass
            case _:
                attributes = {"auto_broadcast": "numpy"}
        node = Node(like.label, "openvino", "", _NAMES[kind], "1", 1, inputs, (name,), attributes)
        self._nodes.append(node)
        return name

    def _constant(self, array: Array, output: str) -> str:
        return self._draft.add_constant(array, f"{output}_constant")

    # --- operators --------------------------------------------------------------------------------

    def _write(self, node: Node) -> None:
        kind, inputs, attributes = node.type, node.inputs, dict(node.attributes)
        match kind:
            case "Pow":
                self._pow(node)
                return
            case "PRelu":
                self._prelu(node)
                self._warn(node, self._target.unlike.get(self._draft.types[inputs[0]].type))
                return
            case "Cast" if node.attributes.get("saturate", True) and "float8" in node.attributes["to"]:
                raise NoExactForm(
                    f"OpenVINO's Convert does not saturate, as this cast to {node.attributes['to']} does"
                )
            case "Identity":
                # A Reshape of zeros copies every dim.
                shape = self._draft.types[inputs[0]].shape
                if shape is None:
                    raise NoExactForm("OpenVINO has no Identity, and the rank is not known")
                kind, attributes = "Reshape", {"shape": (0,) * len(shape)}
        self._add(kind, inputs, node, node.outputs[0], **attributes)

    def _warn(self, node: Node, unlike: str | None) -> None:
        if unlike is not None:
            self._draft.note(node.label, "keeps its types", unlike)

    def _pow(self, node: Node) -> None:
        draft, label, (output,) = self._draft, node.label, node.outputs
        base, exponent = node.inputs
        x, y = draft.types[base].type, draft.types[exponent].type
        array = draft.constants.get(exponent)
        if x == y:
            self._warn(node, departs(self._target, draft.types[base], y, array))
            self._add("Pow", (base, exponent), node, output)
            return
        same_kind = TYPES[x].kind == "float" or TYPES[y].kind != "float"
        held = exactly_as(array, x) if array is not None and same_kind else None
        if held is not None:
            draft.note(label, f"the exponent, a constant in {y}, is stored in {x}, exactly")
            exponent = self._constant(held, output)
        elif same_kind and holds(x, y):
            draft.note(label, f"the exponent is cast from {y} to {x}, exactly: Power has one type")
            exponent = self._add("Cast", (exponent,), node, to=x)
        elif TYPES[x].kind != "float" and _is_never_negative(y, array):
            wide = "uint64" if y == "uint64" else "int64"
            told = f"goes through {wide}, whose low bits are the same: Power has one type"
            draft.note(label, told, self._target.unlike[wide])
            self._through(node, wide, x)
            return
        elif widens_base(x, y, array):
            wide, differs = wider(x, self._target)
            told = f"the base is cast from {x} to {wide} and the power back: Power has one type"
            draft.note(label, told, differs)
            if not holds(wide, y):
                draft.note(label, f"the exponent is cast from {y} to {wide}", lost(wide))
            self._through(node, wide, x)
            return
        else:
            draft.note(label, f"the exponent is cast from {y} to {x}: Power has one type", lost(x))
            exponent = self._add("Cast", (exponent,), node, to=x)
        self._warn(node, self._target.unlike.get(x))
        self._add("Pow", (base, exponent), node, output)

    def _through(self, node: Node, wide: str, kind: str) -> None:
        """Add a power in a wider type, converted back."""
        operands = tuple(self._add("Cast", (name,), node, to=wide) for name in node.inputs)
        power = self._add("Pow", operands, node)
        self._add("Cast", (power,), node, node.outputs[0], to=kind)

    def _prelu(self, node: Node) -> None:
        draft, label, (output,) = self._draft, node.label, node.outputs
        name, slope = node.inputs
        x, shape = draft.types[name], draft.types[slope].shape
        if TYPES[x.type].kind != "float":
            # The function body of PRelu is exact for integers.
            draft.note(label, f"becomes its function body: PReLU takes no {x.type}")
            zero = self._constant(np.zeros((), TYPES[x.type].dtype), output)
            below = self._add("Less", (name, zero), node)
            product = self._add("Mul", (slope, name), node)
            self._add("Where", (below, product, name), node, output)
            return
        if shape is None or (len(shape) == 1 and x.shape is None):
            raise NoExactForm("whether OpenVINO takes the slope as per channel is not known until it runs")
        if x.shape == ():  # a slope of rank 1 does not fit a scalar
            draft.note(label, "X and the slope, scalars, get rank 1, and Y loses it")
            operands = tuple(self._add("Unsqueeze", (each,), node, axes=(0,)) for each in node.inputs)
            self._add("Reshape", (self._add("PRelu", operands, node),), node, output, shape=())
            return
        if shape == ():
            slope = self._add("Unsqueeze", (slope,), node, axes=(0,))
        elif len(shape) == 1 and len(x.shape or ()) > 2 and not is_one(Value("", None, shape)):
            slope = self._add("Unsqueeze", (slope,), node, axes=tuple(range(len(x.shape or ()) - 1)))
            draft.note(
                label, "the slope gets the rank of X: one of rank 1 would be taken for one per channel"
            )
        self._add("PRelu", (name, slope), node, output)


def _is_never_negative(kind: str, array: Array | None) -> bool:
    """Return whether an exponent is an integer of at least 0, by its type or its values."""
    if TYPES[kind].kind == "float":
        return False
    return TYPES[kind].kind == "uint" or (array is not None and bool((array >= 0).all()))
