"""The IR between the formats to a DxDispatch program: an operator for each Pow and PRelu.

Reshape, Unsqueeze and Identity cost nothing there: the next operator sees the same resource in other
sizes. What is broadcast is read with strides of 0.
"""

from __future__ import annotations

from math import prod

import numpy as np

from halfulp.conversion.editor import NoExactForm
from halfulp.conversion.ir import IR, Op
from halfulp.conversion.ir.from_graph import integral
from halfulp.errors import SpecError, UnsupportedError, printable, within
from halfulp.models.directml import (
    DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC,
    DML_BUFFER_TENSOR_DESC,
    DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC,
    DML_ELEMENT_WISE_POW_OPERATOR_DESC,
    OperatorDesc,
    validate,
)
from halfulp.models.directml.dxdispatch import Binding, Dispatch, Dispatchable, Program, Resource
from halfulp.models.directml.dxdispatch.values import Constant, Values
from halfulp.models.directml.tensor import DATA_TYPES
from halfulp.models.graph import Array
from halfulp.models.run.cast import cast
from halfulp.models.run.inputs import dtype_named

_UNLIKE = "DirectML gives NaN for -infinity to a power that is no integer, and for a negative base to an infinite one"
_MOST_DIMS = 8
_FREE = ("reshape", "unsqueeze", "identity")


def write(ir: IR) -> Program:
    """Return the program of an IR.

    Raises:
        UnsupportedError: an operator that is not ours, dims that are not known, a type that DirectML
            lacks, each by the node's or the value's name.
        ModelError: a description that DirectML's debug layer would refuse.
    """
    return _Writer(ir).program()


class _Writer:
    """Writes one program."""

    def __init__(self, ir: IR) -> None:
        self._ir = ir
        self._root: dict[str, str] = {}  # the value whose elements a value has
        self._resources: dict[str, Resource] = {}
        self._dispatchables: dict[str, Dispatchable] = {}
        self._commands: list[Dispatch] = []

    def program(self) -> Program:
        ir = self._ir
        self._fold_casts()
        names = self._named_resources()
        for value in ir.inputs:
            self._resource(names[value.name], value.name, ir.defaults.get(value.name))
        for name, array in ir.constants.items():
            self._resource(name, name, array)
        for number, op in enumerate(op for op in ir.ops if op.kind not in _FREE):
            with within(ir.file, op.label):
                desc = self._desc(op)
                try:
                    validate(desc)
                except SpecError as error:
                    raise NoExactForm(
                        f"{error.message}: {error.shown.get('got', '')} ({error.clause})"
                    ) from None
                points = ("InputTensor", "ExponentTensor", "SlopeTensor")
                wanted = [point for point in points if hasattr(desc, point)]
                self._resource(names[op.output], op.output, None)
                bindings = {
                    point: Binding(names.get(self._of(name), self._of(name)))
                    for point, name in zip(wanted, op.inputs, strict=False)
                }
                owned = {p: b for p, b in bindings.items() if b.name in ir.constants}
                free = {p: b for p, b in bindings.items() if p not in owned}
                free["OutputTensor"] = Binding(names[op.output])
                label = f"{op.kind}{number}"
                self._dispatchables[label] = Dispatchable(label, desc.type, desc, owned)
                self._commands.append(Dispatch(label, free))
        read = {b.name for d in self._dispatchables.values() for b in d.bindings.values()}
        read |= {b.name for c in self._commands for b in c.bindings.values()}
        resources = {n: r for n, r in self._resources.items() if n in read or n not in ir.constants}
        return Program(ir.file, None, resources, self._dispatchables, tuple(self._commands))

    def _of(self, name: str) -> str:
        return self._root.get(name, name)

    def _fold_casts(self) -> None:
        """Cast constants now, and find whose elements a reshaped value has."""
        kept = []
        for op in self._ir.ops:
            if op.kind in _FREE:
                self._root[op.output] = self._of(op.inputs[0])
            array = self._ir.constants.get(self._of(op.inputs[0]))
            if op.kind == "cast" and array is not None:
                saturate = bool(op.parameters.get("saturate", True))
                self._ir.constants[op.output] = cast(
                    array, dtype_named(op.parameters["to"]), saturate=saturate
                )
                self._ir.note(op.label, "is a constant now")
                continue
            kept.append(op)
        self._ir.ops = kept

    def _named_resources(self) -> dict[str, str]:
        """Return each value's resource: an output gives its name to what its elements are made by."""
        made = {op.output for op in self._ir.ops if op.kind not in _FREE}
        names = {name: name for name in self._ir.types}
        taken: dict[str, str] = {}
        for value in self._ir.outputs:
            root = self._of(value.name)
            if root not in made or root in taken:
                raise UnsupportedError(
                    f"{self._ir.file}: output {printable(value.name)!r} is made by no operator of its own,"
                    " and DirectML's three copy nothing"
                )
            taken[root] = names[root] = value.name
        return names

    def _resource(self, resource: str, name: str, array: Array | None) -> None:
        kind = self._ir.types[name].type
        if kind not in _NAMES:
            raise UnsupportedError(
                f"{self._ir.file}: DirectML has no type {kind}, which {printable(name)!r} is of"
            )
        count = prod(self._sizes(name))
        initial = Constant(count, 0) if array is None else Values(tuple(array.reshape(-1).tolist()))
        self._resources[resource] = Resource(resource, initial, _NAMES[kind])

    def _sizes(self, name: str) -> tuple[int, ...]:
        shape = self._ir.types[name].shape
        sizes = tuple(dim for dim in shape or () if isinstance(dim, int))
        if shape is None or len(sizes) < len(shape):
            raise UnsupportedError(
                f"{self._ir.file}: {printable(name)!r} has dims that are not known, and DirectML's sizes are numbers"
            )
        return sizes or (1,)

    def _desc(self, op: Op) -> OperatorDesc:
        if op.kind not in ("pow", "prelu"):
            raise NoExactForm(f"{op.kind} is none of DirectML's operators that are ours")
        sizes = self._sizes(op.output)
        if len(sizes) > _MOST_DIMS:
            raise NoExactForm(f"DirectML has at most {_MOST_DIMS} dims")
        x, y = (self._tensor(name, sizes) for name in op.inputs)
        output = DML_BUFFER_TENSOR_DESC(DataType=x.DataType, Sizes=sizes)
        if op.kind == "prelu":
            return DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC(
                InputTensor=x, SlopeTensor=y, OutputTensor=output
            )
        exponent = self._ir.constants.get(self._of(op.inputs[1]))
        kinds = [self._ir.types[name].type for name in op.inputs]
        if "float" in kinds[1] and not (exponent is not None and bool(integral(exponent).all())):
            self._ir.note(op.label, f"becomes {DML_ELEMENT_WISE_POW_OPERATOR_DESC.type}", _UNLIKE)
        single = exponent is not None and exponent.size == 1 and "float" in kinds[0]
        if single and exponent is not None and float(np.float32(exponent.item())) == exponent.item():
            return DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC(
                InputTensor=x, OutputTensor=output, Exponent=float(exponent.item())
            )
        return DML_ELEMENT_WISE_POW_OPERATOR_DESC(InputTensor=x, ExponentTensor=y, OutputTensor=output)

    def _tensor(self, name: str, sizes: tuple[int, ...]) -> DML_BUFFER_TENSOR_DESC:
        kind = self._ir.types[name].type
        if kind not in _NAMES:
            raise NoExactForm(f"DirectML has no type {kind}")
        own = self._sizes(name)
        padded = (1,) * (len(sizes) - len(own)) + own
        steps, step = [], 1
        for dim, size in zip(reversed(padded), reversed(sizes), strict=True):
            steps.append(0 if dim == 1 and size != 1 else step)
            step *= dim
        strides = None if padded == sizes else tuple(reversed(steps))
        flags = "OWNED_BY_DML" if self._of(name) in self._ir.constants else "NONE"
        return DML_BUFFER_TENSOR_DESC(DataType=_NAMES[kind], Sizes=sizes, Strides=strides, Flags=flags)


_NAMES = {row.name: name for name, row in DATA_TYPES.items()}
