"""The IR between the formats to ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto

from halfulp.conversion.editor import NoExactForm, unused
from halfulp.conversion.ir import IR, Op
from halfulp.errors import UnsupportedError, within
from halfulp.models.graph import Array, Value
from halfulp.models.onnx.tensors import enum_of
from halfulp.models.run.inputs import dtype_named
from halfulp.types import TYPES

OPSET = 18
"""The opset of what is written, where no type needs a later one."""

_BASES = ("float64", "float32", "float16", "bfloat16", "int32", "int64")
_SLOPED = (*_BASES, "uint32", "uint64")
_EXPONENTS = (*_SLOPED, "int8", "int16", "uint8", "uint16")


def write(ir: IR) -> ModelProto:
    """Return the ONNX model of an IR; notes what it does to types that an operator lacks.

    Raises:
        UnsupportedError: a type that ONNX lacks, or an operator has no exact form for, naming the node.
    """
    return _Writer(ir).model()


class _Writer:
    """Writes one model."""

    def __init__(self, ir: IR) -> None:
        self._ir = ir
        self._graph = GraphProto(name=ir.name or "graph")
        self._names = set(ir.types)
        self._opset = OPSET

    def model(self) -> ModelProto:
        ir, graph = self._ir, self._graph
        for value in ir.inputs:
            graph.input.append(self._info(value))
        for op in ir.ops:
            with within(ir.file, op.label):
                _WRITERS.get(op.kind, _Writer._plain)(self, op)
        for value in ir.outputs:
            graph.output.append(self._info(Value(value.name, *ir.types[value.name])))
        for name, array in (*ir.constants.items(), *ir.defaults.items()):
            self._initializer(array, name)
        imports = [onnx.helper.make_opsetid("", self._opset)]
        return onnx.helper.make_model(
            graph,
            producer_name="halfulp",
            opset_imports=imports,
            ir_version=onnx.helper.find_min_ir_version_for(imports),
        )

    # --- operators --------------------------------------------------------------------------------

    def _plain(self, op: Op) -> None:
        self._need(op, 1 if op.kind == "where" else 0)
        self._node(_OPERATORS[op.kind], list(op.inputs), op.output, op.label)

    def _cast(self, op: Op) -> None:
        to = op.parameters["to"]
        self._opset = max(
            self._opset, _first("Cast", 0, to), _first("Cast", 0, self._ir.types[op.inputs[0]].type)
        )
        extra = {} if op.parameters.get("saturate", True) or "float8" not in to else {"saturate": 0}
        self._node("Cast", list(op.inputs), op.output, op.label, to=self._enum(to), **extra)

    def _shaped(self, op: Op) -> None:
        self._need(op, 0)
        values = op.parameters["axes" if op.kind == "unsqueeze" else "shape"]
        how = self._constant(np.array(values, np.int64), op.output)
        self._node(_OPERATORS[op.kind], [op.inputs[0], how], op.output, op.label)

    def _pow(self, op: Op) -> None:
        x, y = (self._ir.types[name].type for name in op.inputs)
        if y not in _EXPONENTS:
            raise NoExactForm(f"Pow of ONNX takes no {y} as exponent")
        if x in _BASES:
            self._node("Pow", list(op.inputs), op.output, op.label)
        elif TYPES[x].kind == "float":
            raise NoExactForm(f"Pow of ONNX takes no {x}, and a power in a wider type would be rounded twice")
        else:
            self._narrow_integer(op, x, y)

    def _narrow_integer(self, op: Op, x: str, y: str) -> None:
        """A power in a wider integer type, whose low bits are the power's."""
        if TYPES[y].kind == "float":
            raise NoExactForm(f"Pow of ONNX takes no {x} as base, and {x} to the power of a float saturates")
        wide = "int32" if TYPES[x].bits < 32 else "int64"
        self._ir.note(op.label, f"{x} goes through {wide}, whose low bits are the same: Pow takes no {x}")
        base = self._cast_to(op.inputs[0], wide, op)
        powers = self._node("Pow", [base, op.inputs[1]], None, op.label)
        exponent = self._ir.constants.get(op.inputs[1])
        never_negative = TYPES[y].kind == "uint" or (exponent is not None and bool((exponent >= 0).all()))
        if never_negative:
            self._node("Cast", [powers], op.output, op.label, to=self._enum(x))
            return
        # 0 to a negative power is the type's largest value, whose bits the wider type does not have.
        narrow = self._node("Cast", [powers], None, op.label, to=self._enum(x))
        zero, none = self._constant(np.zeros((), wide), op.output), self._constant(np.zeros((), y), op.output)
        is_zero = self._node("Equal", [base, zero], None, op.label)
        below = self._node("Less", [op.inputs[1], none], None, op.label)
        both = self._node("And", [is_zero, below], None, op.label)
        row = TYPES[x]
        largest = (1 << (row.bits - (row.kind == "int"))) - 1
        most = self._constant(np.array(largest, dtype_named(x)), op.output)
        self._node("Where", [both, most, narrow], op.output, op.label)

    def _prelu(self, op: Op) -> None:
        x = self._ir.types[op.inputs[0]].type
        if x in _SLOPED:
            self._node("PRelu", list(op.inputs), op.output, op.label)
        elif TYPES[x].kind == "uint" or x == "float8_e8m0fnu":
            self._ir.note(op.label, f"{x} is never below 0: data as it is")
            self._node("Identity", [op.inputs[0]], op.output, op.label)
        elif TYPES[x].kind == "int":
            self._ir.note(op.label, f"{x} goes through int32, whose low bits are the same")
            self._through(op, x, "int32")
        else:
            self._ir.note(
                op.label,
                f"{x} goes through float32, which holds every product",
                "a NaN in the data may lose its payload" if x == "float8_e5m2" else None,
            )
            self._through(op, x, "float32")

    def _through(self, op: Op, kind: str, wide: str) -> None:
        self._opset = max(self._opset, _first("Cast", 0, kind))
        operands = [self._cast_to(name, wide, op) for name in op.inputs]
        result = self._node("PRelu", operands, None, op.label)
        extra = {"saturate": 0} if "float8" in kind else {}
        self._node("Cast", [result], op.output, op.label, to=self._enum(kind), **extra)

    # --- pieces -----------------------------------------------------------------------------------

    def _need(self, op: Op, index: int) -> None:
        """Raise the opset to the first in which the operator takes its type."""
        kind = self._ir.types[op.inputs[index]].type
        self._opset = max(self._opset, _first(_OPERATORS[op.kind], index, kind))

    def _node(
        self, op_type: str, inputs: list[str], output: str | None, label: str, **attributes: Any
    ) -> str:
        name = output or self._free(f"{inputs[0]}_{op_type.lower()}")
        self._graph.node.append(onnx.helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def _cast_to(self, name: str, kind: str, op: Op) -> str:
        return self._node("Cast", [name], None, op.label, to=self._enum(kind))

    def _constant(self, array: Array, base: str) -> str:
        name = self._free(f"{base}_constant")
        self._initializer(array, name)
        return name

    def _initializer(self, array: Array, name: str) -> None:
        self._enum(array.dtype.name)
        packed = np.ascontiguousarray(array).reshape(array.shape)
        self._graph.initializer.append(onnx.numpy_helper.from_array(packed, name))

    def _free(self, wished: str) -> str:
        name = unused(wished, self._names)
        self._names.add(name)
        return name

    def _enum(self, kind: str) -> int:
        if kind in TYPES and TYPES[kind].onnx_enum is None:
            raise UnsupportedError(f"{self._ir.file}: ONNX has no type {kind}")
        return enum_of(kind)

    def _info(self, value: Value) -> onnx.ValueInfoProto:
        assert value.type is not None
        return onnx.helper.make_tensor_value_info(value.name, self._enum(value.type), value.shape)


@lru_cache
def _first(op_type: str, index: int, kind: str) -> int:
    """Return the first opset, of those that are written, in which an operator takes a type as an input."""
    spelled = f"tensor({TensorProto.DataType.Name(enum_of(kind)).lower()})"
    for opset in range(OPSET, onnx.defs.onnx_opset_version() + 1):
        schema = onnx.defs.get_schema(op_type, opset, "")
        allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        if spelled in allowed[schema.inputs[index].type_str]:
            return opset
    raise NoExactForm(f"{op_type} of ONNX takes no {kind}")


_OPERATORS = {
    "identity": "Identity",
    "mul": "Mul",
    "add": "Add",
    "less": "Less",
    "where": "Where",
    "reshape": "Reshape",
    "unsqueeze": "Unsqueeze",
    "equal": "Equal",
    "floor": "Floor",
    "and": "And",
}
_WRITERS: Mapping[str, Callable[[_Writer, Op], None]] = {
    "cast": _Writer._cast,
    "reshape": _Writer._shaped,
    "unsqueeze": _Writer._shaped,
    "pow": _Writer._pow,
    "prelu": _Writer._prelu,
}
