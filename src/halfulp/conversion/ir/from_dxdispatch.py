"""DxDispatch programs to the IR between the formats."""

from __future__ import annotations

from math import frexp, prod

import numpy as np

from halfulp.conversion.editor import NoExactForm
from halfulp.conversion.ir import IR
from halfulp.conversion.ir.from_graph import integral
from halfulp.errors import printable, within
from halfulp.models.directml import (
    DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC,
    DML_BUFFER_TENSOR_DESC,
    DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC,
    DML_ELEMENT_WISE_POW_OPERATOR_DESC,
    DML_SCALE_BIAS,
)
from halfulp.models.directml.dxdispatch import Binding, Dispatch, Dispatchable, Program
from halfulp.models.graph import Value
from halfulp.models.run.dxdispatch import refuse_foreign
from halfulp.models.run.inputs import dtype_named
from halfulp.types import TYPES


def read(program: Program) -> IR:
    """Return the IR of a program: its dispatches in order, resources that they read as inputs.

    Raises:
        UnsupportedError: dispatchables that are not ours; tensors that lie in their resource in a way
            that can't be said elsewhere; ScaleBias where its rounding can't.
    """
    refuse_foreign(program)
    return _Reader(program).ir()


class _Reader:
    """Reads one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._ir = IR(program.file, "graph")
        self._held: dict[str, str] = {}  # by resource, the value that it holds now
        self._written: list[str] = []

    def ir(self) -> IR:
        program, ir = self._program, self._ir
        for index, command in enumerate(program.commands):
            if not isinstance(command, Dispatch):
                ir.note(
                    program.file, f"command {index}, a {type(command).__name__.lower()}, is not carried over"
                )
                continue
            dispatchable = program.dispatchables[command.dispatchable]
            with within(program.file, f"'{printable(command.dispatchable)}' (command {index})"):
                self._dispatch(dispatchable, command)
        inputs = {value.name for value in ir.inputs}
        for resource in self._written:
            name = resource
            if resource in inputs:
                name = ir.free(f"{resource}_out")
                ir.note(
                    program.file, f"resource {resource!r} is read and written: what is written is {name!r}"
                )
            ir.add("identity", [self._held[resource]], f"'{printable(resource)}'", name)
            ir.renamed[resource] = name
            ir.outputs.append(Value(name, *ir.types[name]))
        return ir

    def _dispatch(self, dispatchable: Dispatchable, command: Dispatch) -> None:
        desc = dispatchable.desc
        assert desc is not None
        label = f"'{printable(dispatchable.name)}'"
        bindings = {**dispatchable.bindings, **command.bindings}
        owned = dispatchable.bindings.keys()
        x = self._tensor(desc.InputTensor, bindings["InputTensor"], label, "InputTensor" in owned)
        match desc:
            case DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC():
                slope = self._tensor(desc.SlopeTensor, bindings["SlopeTensor"], label, "SlopeTensor" in owned)
                result = self._ir.add("prelu", [x, slope], label)
            case DML_ELEMENT_WISE_POW_OPERATOR_DESC():
                y = self._tensor(
                    desc.ExponentTensor, bindings["ExponentTensor"], label, "ExponentTensor" in owned
                )
                result = self._pow(x, y, desc.ScaleBias, label)
            case DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC():
                y = self._ir.add_constant(np.array(desc.Exponent, np.float32), "exponent")
                result = self._pow(x, y, desc.ScaleBias, label)
        output, binding = desc.OutputTensor, bindings["OutputTensor"]
        if self._ir.types[result].shape != output.Sizes:
            raise NoExactForm("every input is repeated along a dim, and nothing here repeats the output")
        if output.Strides is not None and not output.is_packed:
            raise NoExactForm("OutputTensor has strides that leave gaps")
        self._covers(output, binding)
        self._held[binding.name] = result
        if binding.name not in self._written:
            self._written.append(binding.name)

    def _tensor(self, tensor: DML_BUFFER_TENSOR_DESC, binding: Binding, label: str, owned: bool) -> str:
        """Return the value of a tensor, its repeated dims 1."""
        sizes = tensor.Sizes
        if tensor.Strides is not None and not tensor.is_packed:
            sizes = tuple(1 if step == 0 else size for size, step in zip(sizes, tensor.Strides, strict=True))
            expected, step = [], 1
            for size in reversed(sizes):
                expected.append(step)
                step *= size
            pairs = zip(sizes, tensor.Strides, reversed(expected), strict=True)
            if any(size > 1 and stride != packed for size, stride, packed in pairs):
                raise NoExactForm("a tensor has strides that neither pack nor repeat its elements")
        resource = self._covers(tensor, binding, prod(sizes))
        name = self._held.get(resource)
        if owned:
            array = self._program.resources[resource].make().reshape(sizes)
            return self._ir.add_constant(array, resource)
        if name is None:
            name = self._held[resource] = resource
            self._ir.add_input(Value(resource, tensor.element_type.name, sizes))
            self._ir.defaults[resource] = self._program.resources[resource].make().reshape(sizes)
        if self._ir.types[name].shape != sizes:
            return self._ir.add("reshape", [name], label, shape=sizes)
        return name

    def _covers(self, tensor: DML_BUFFER_TENSOR_DESC, binding: Binding, count: int | None = None) -> str:
        resource = self._program.resources[binding.name]
        held = resource.initialValues.count()
        if (
            binding.elementOffset
            or resource.initialValuesOffsetInBytes
            or resource.type != tensor.DataType
            or held != (prod(tensor.Sizes) if count is None else count)
        ):
            raise NoExactForm(f"a tensor is not the whole of its resource {binding.name!r}")
        return binding.name

    def _pow(self, x: str, y: str, scale_bias: DML_SCALE_BIAS | None, label: str) -> str:
        ir = self._ir
        if scale_bias is not None:
            x = self._scaled(x, scale_bias, label)
        power = ir.add("pow", [x, y], label)
        base, exponent = ir.types[x].type, ir.types[y].type
        array = ir.constants.get(y)
        if TYPES[base].kind == "uint" or TYPES[exponent].kind != "float":
            return power
        if array is not None and bool(integral(array).all()):
            return power
        ir.note(label, "a negative base to a power that is no integer is made NaN, as DirectML does")
        zero = ir.add_constant(np.zeros((), dtype_named(base)), "zero")
        nan = np.array(np.nan, dtype_named(base)) if TYPES[base].kind == "float" else np.zeros((), base)
        below = ir.add("less", [x, zero], label)
        instead = ir.add("where", [below, ir.add_constant(nan, "nan"), power], label)
        if array is not None:
            whole = ir.add_constant(integral(array), "integral")
        else:
            none = ir.add_constant(np.zeros((), dtype_named(exponent)), "none")
            floor = ir.add("equal", [ir.add("floor", [y], label), y], label)
            finite = ir.add("equal", [ir.add("mul", [y, none], label), none], label)
            whole = ir.add("and", [floor, finite], label)
        return ir.add("where", [whole, power, instead], label)

    def _scaled(self, x: str, scale_bias: DML_SCALE_BIAS, label: str) -> str:
        """x * Scale + Bias with one rounding, through float64 where that is free of a second one."""
        kind = self._ir.types[x].type
        scale, bias = (float(np.float32(value)) for value in (scale_bias.Scale, scale_bias.Bias))
        power_of_two = abs(frexp(scale)[0]) == 0.5
        if kind != "float32" or not (bias == 0 or power_of_two):
            raise NoExactForm(
                "ScaleBias is rounded once, and only in float32 with a Scale that is a power of two, or a Bias"
                " of 0, can that be said with a product and a sum"
            )
        self._ir.note(label, "ScaleBias becomes a product and a sum in float64, which are exact here")
        factor = self._ir.add_constant(np.array(scale, np.float64), "scale")
        summand = self._ir.add_constant(np.array(bias, np.float64), "bias")
        wide = self._ir.add("cast", [x], label, to="float64")
        wide = self._ir.add("mul", [wide, factor], label)
        wide = self._ir.add("add", [wide, summand], label)
        return self._ir.add("cast", [wide], label, to="float32")
