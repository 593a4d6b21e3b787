"""DxDispatch programs to graphs of no format, and back: an operator for each Pow and PRelu.

Reshape, Unsqueeze and Identity cost nothing there: the next operator sees the same resource in other
sizes. Broadcast operands are read with strides of 0.
"""

from __future__ import annotations

from math import frexp, prod

import numpy as np

from halfulp.conversion.between import Draft
from halfulp.conversion.editor import Change, NoExactForm
from halfulp.errors import SpecError, UnsupportedError, printable, within
from halfulp.models.directml import (
    DATA_TYPES,
    DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC,
    DML_BUFFER_TENSOR_DESC,
    DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC,
    DML_ELEMENT_WISE_POW_OPERATOR_DESC,
    DML_SCALE_BIAS,
    ELEMENT_WISE,
    OperatorDesc,
    tensors,
    validate,
)
from halfulp.models.directml.dxdispatch import Binding, Dispatch, Dispatchable, Program, Resource
from halfulp.models.directml.dxdispatch.program import listed, repeated
from halfulp.models.graph import Array, Node, Value
from halfulp.models.onnx.walk import SUPPORTED_OPS
from halfulp.models.run.cast import cast
from halfulp.models.run.dxdispatch import refuse_foreign
from halfulp.models.run.inputs import dtype_named
from halfulp.specs.unspecified import integral
from halfulp.types import TYPES

_UNLIKE = (
    "DirectML gives NaN for a negative base to an infinite power, and for -infinity to a fractional power"
)
_MOST_DIMS = 8
_FREE = ("Reshape", "Unsqueeze", "Identity")
_NAMES = {row.name: name for name, row in DATA_TYPES.items()}


class ProgramReader:
    """Reads a program's dispatches in order as a neutral graph.

    Resources that the dispatches read become inputs, whose defaults are their initial values.
    """

    def __init__(self, program: Program, changes: list[Change]) -> None:
        self._program = program
        self._draft = Draft(program.file, "graph", changes)
        self._held: dict[str, str] = {}  # by resource, the value that it holds now
        self._written: dict[str, str] = {}  # by resource, the name of the value written to it

    def read(self) -> tuple[Draft, dict[str, str]]:
        """Return the graph, and its outputs' names by their resources' names.

        Raises:
            UnsupportedError: dispatchables that halfulp does not compute; tensors whose layout in their resource,
                or a ScaleBias whose rounding, other formats can't express.
        """
        program, draft = self._program, self._draft
        refuse_foreign(program)
        for index, command in enumerate(program.commands):
            if not isinstance(command, Dispatch):
                said = f"command {index}, a {type(command).__name__.lower()}, is not carried over"
                draft.note(program.file, said)
                continue
            dispatchable = program.dispatchables[command.dispatchable]
            with within(program.file, f"'{printable(command.dispatchable)}' (command {index})"):
                self._dispatch(dispatchable, command)
        inputs = {value.name for value in draft.inputs}
        self._written = {name: "" for name in self._written if not program.resources[name].internal}
        for resource in self._written:
            name = resource
            if resource in inputs:
                name = draft.free(f"{resource}_out")
                said = f"resource {resource!r} is read and written: the written value is {name!r}"
                draft.note(program.file, said)
            draft.add("Identity", [self._held[resource]], f"'{printable(resource)}'", name)
            self._written[resource] = name
            draft.outputs.append(Value(name, *draft.types[name]))
        draft.drop_unread()
        return draft, self._written

    def _dispatch(self, dispatchable: Dispatchable, command: Dispatch) -> None:
        desc = dispatchable.desc
        assert desc is not None
        label = f"'{printable(dispatchable.name)}'"
        bindings = {**dispatchable.bindings, **command.bindings}
        operands = [
            self._tensor(tensor, bindings[point], label, point in dispatchable.bindings)
            for point, tensor in tensors(desc).items()
            if point != "OutputTensor"
        ]
        if isinstance(desc, DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC):
            exponent = np.array(desc.Exponent, np.float32)
            operands.append(self._draft.add_constant(exponent, "exponent"))
        scale_bias: DML_SCALE_BIAS | None = getattr(desc, "ScaleBias", None)
        if scale_bias is not None:
            operands[0] = self._scaled(operands[0], scale_bias, label)
        if isinstance(desc, DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC):
            result = self._draft.add("PRelu", operands, label)
        elif desc.type in ELEMENT_WISE:
            result = self._draft.add(ELEMENT_WISE[desc.type][1], operands, label)
        else:
            result = self._pow(operands[0], operands[1], label)
        output, binding = desc.OutputTensor, bindings["OutputTensor"]
        if self._draft.types[result].shape != output.Sizes:
            raise NoExactForm("every input is repeated along a dim, and nothing here repeats the output")
        if output.Strides is not None and not output.is_packed:
            raise NoExactForm("OutputTensor has strides that leave gaps")
        self._check_whole(output, binding, output.Sizes)
        self._held[binding.name] = result
        self._written.setdefault(binding.name, "")

    def _tensor(self, tensor: DML_BUFFER_TENSOR_DESC, binding: Binding, label: str, owned: bool) -> str:
        """Return the value of a tensor, its repeated dims 1."""
        sizes = tensor.Sizes
        if tensor.Strides is not None and not tensor.is_packed:
            sizes = tuple(1 if step == 0 else size for size, step in zip(sizes, tensor.Strides, strict=True))
            if not DML_BUFFER_TENSOR_DESC(
                DataType=tensor.DataType, Sizes=sizes, Strides=tensor.Strides
            ).is_packed:
                raise NoExactForm("a tensor has strides that neither pack nor repeat its elements")
        self._check_whole(tensor, binding, sizes)
        resource, draft = binding.name, self._draft
        if owned or resource not in self._held:
            array = self._program.resources[resource].make().reshape(sizes)
            if owned:
                return draft.add_constant(array, resource)
            self._held[resource] = resource
            draft.add_input(Value(resource, tensor.element_type.name, sizes))
            draft.defaults[resource] = array
        name = self._held[resource]
        is_shaped = draft.types[name].shape == sizes
        return name if is_shaped else draft.add("Reshape", [name], label, shape=sizes)

    def _check_whole(self, tensor: DML_BUFFER_TENSOR_DESC, binding: Binding, sizes: tuple[int, ...]) -> None:
        resource = self._program.resources[binding.name]
        if (
            binding.elementOffset
            or resource.initialValuesOffsetInBytes
            or resource.type != tensor.DataType
            or resource.initialValues.count != prod(sizes)
        ):
            raise NoExactForm(f"a tensor is not the whole of its resource {binding.name!r}")

    def _pow(self, x: str, y: str, label: str) -> str:
        draft = self._draft
        power = draft.add("Pow", [x, y], label)
        base, exponent = TYPES[draft.types[x].type], TYPES[draft.types[y].type]
        array = draft.constants.get(y)
        is_integral = exponent.kind != "float" or (array is not None and bool(integral(array).all()))
        if base.kind == "uint" or is_integral:
            return power
        draft.note(label, "a negative base to a power that is not an integer is made NaN, as DirectML does")
        zero = draft.add_constant(np.zeros((), base.dtype), "zero")
        nan = np.array(np.nan if base.kind == "float" else 0, base.dtype)
        below = draft.add("Less", [x, zero], label)
        instead = draft.add("Where", [below, draft.add_constant(nan, "nan"), power], label)
        if array is not None:
            whole = draft.add_constant(integral(array), "integral")
        else:
            none = draft.add_constant(np.zeros((), exponent.dtype), "none")
            floor = draft.add("Equal", [draft.add("Floor", [y], label), y], label)
            finite = draft.add("Equal", [draft.add("Mul", [y, none], label), none], label)
            whole = draft.add("And", [floor, finite], label)
        return draft.add("Where", [whole, power, instead], label)

    def _scaled(self, x: str, scale_bias: DML_SCALE_BIAS, label: str) -> str:
        """Return x * Scale + Bias with one rounding, through float64 where that causes no second rounding."""
        draft = self._draft
        scale, bias = (float(np.float32(value)) for value in (scale_bias.Scale, scale_bias.Bias))
        power_of_two = abs(frexp(scale)[0]) == 0.5
        if draft.types[x].type != "float32" or not (bias == 0 or power_of_two):
            raise NoExactForm(
                "ScaleBias becomes a product and a sum only in float32, with a Scale that is a power of two or a"
                " Bias of 0, because otherwise two roundings differ from one; halfulp run computes it as it is"
            )
        draft.note(label, "ScaleBias becomes a product and a sum in float64, which are exact here")
        factor = draft.add_constant(np.array(scale, np.float64), "scale")
        summand = draft.add_constant(np.array(bias, np.float64), "bias")
        wide = draft.add("Cast", [x], label, to="float64")
        wide = draft.add("Add", [draft.add("Mul", [wide, factor], label), summand], label)
        return draft.add("Cast", [wide], label, to="float32")


class ProgramWriter:
    """Writes a neutral graph as a program."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._root: dict[str, str] = {}  # by value, the value whose elements it shares
        self._resources: dict[str, Resource] = {}

    def model(self) -> Program:
        """Return the program; raises UnsupportedError where the graph has no exact form."""
        draft = self._draft
        nodes = self._computing()
        names = self._named_resources(nodes)
        dispatchables: dict[str, Dispatchable] = {}
        commands: list[Dispatch] = []
        for value in draft.inputs:
            self._resource(names[value.name], value.name, draft.defaults.get(value.name))
        for name, array in draft.constants.items():
            self._resource(name, name, array)
        for number, node in enumerate(nodes):
            with within(draft.file, node.label):
                desc = self._desc(node)
                try:
                    validate(desc)
                except SpecError as error:
                    raise NoExactForm(
                        f"{error.message}: {error.shown.get('got', '')} ({error.clause})"
                    ) from None
                (output,) = node.outputs
                self._resource(names[output], output, None)
                roots = [self._of(name) for name in node.inputs]
                points = [point for point in tensors(desc) if point != "OutputTensor"]
                bindings = {p: Binding(names.get(root, root)) for p, root in zip(points, roots, strict=False)}
                owned = {p: b for p, b in bindings.items() if b.name in draft.constants}
                free = {p: b for p, b in bindings.items() if p not in owned}
                free["OutputTensor"] = Binding(names[output])
                label = f"{node.type.lower()}{number}"
                dispatchables[label] = Dispatchable(label, desc.type, desc, owned)
                commands.append(Dispatch(label, free))
        parts: list[Dispatchable | Dispatch] = [*dispatchables.values(), *commands]
        read = {binding.name for part in parts for binding in part.bindings.values()}
        resources = {n: r for n, r in self._resources.items() if n in read or n not in draft.constants}
        return Program(draft.file, None, resources, dispatchables, tuple(commands))

    def _of(self, name: str) -> str:
        return self._root.get(name, name)

    def _computing(self) -> list[Node]:
        """Return the nodes that compute.

        Reshaped values share their source's elements; constants are cast here.
        """
        draft, kept = self._draft, []
        for node in draft.nodes:
            (output,) = node.outputs
            array = draft.constants.get(self._of(node.inputs[0]))
            if node.type in _FREE:
                self._root[output] = self._of(node.inputs[0])
            elif node.type == "Cast" and array is not None:
                saturate = bool(node.attributes.get("saturate", True))
                draft.constants[output] = cast(array, dtype_named(node.attributes["to"]), saturate=saturate)
                draft.note(node.label, "is a constant now")
            else:
                kept.append(node)
        return kept

    def _named_resources(self, nodes: list[Node]) -> dict[str, str]:
        """Return each value's resource: the value that makes an output's elements takes the output's name."""
        made = {node.outputs[0] for node in nodes}
        names = {name: name for name in self._draft.types}
        taken = set()
        for value in self._draft.outputs:
            root = self._of(value.name)
            if root not in made or root in taken:
                raise UnsupportedError(
                    f"{self._draft.file}: output {printable(value.name)!r} is made by no operator of its own,"
                    " and DirectML's three copy nothing"
                )
            taken.add(root)
            names[root] = value.name
        return names

    def _resource(self, resource: str, name: str, array: Array | None) -> None:
        kind = self._draft.types[name].type
        if kind not in _NAMES:
            raise UnsupportedError(
                f"{self._draft.file}: DirectML has no type {kind}, which {printable(name)!r} is of"
            )
        dtype, count = dtype_named(kind), prod(self._sizes(name))
        initial = repeated(count, 0, dtype) if array is None else listed(array.reshape(-1).tolist(), dtype)
        self._resources[resource] = Resource(resource, _NAMES[kind], initial)

    def _sizes(self, name: str) -> tuple[int, ...]:
        shape = self._draft.types[name].shape
        sizes = tuple(dim for dim in shape or () if isinstance(dim, int))
        if shape is None or len(sizes) < len(shape):
            raise UnsupportedError(
                f"{self._draft.file}: {printable(name)!r} has dims that are not known, and DirectML's sizes are"
                " numbers; give them: -i DIM=N"
            )
        return sizes or (1,)

    def _desc(self, node: Node) -> OperatorDesc:
        if node.type not in SUPPORTED_OPS:
            raise NoExactForm(f"{node.type.lower()} is not an operator that halfulp writes for DirectML")
        draft, sizes = self._draft, self._sizes(node.outputs[0])
        if len(sizes) > _MOST_DIMS:
            raise NoExactForm(f"DirectML has at most {_MOST_DIMS} dims")
        x, y = (self._tensor(name, sizes) for name in node.inputs)
        output = DML_BUFFER_TENSOR_DESC(DataType=x.DataType, Sizes=sizes)
        if node.type == "PRelu":
            return DML_ACTIVATION_PARAMETERIZED_RELU_OPERATOR_DESC(
                InputTensor=x, SlopeTensor=y, OutputTensor=output
            )
        exponent = draft.constants.get(self._of(node.inputs[1]))
        if y.element_type.kind == "float" and (exponent is None or not integral(exponent).all()):
            draft.note(node.label, f"becomes {DML_ELEMENT_WISE_POW_OPERATOR_DESC.type}", _UNLIKE)
        if exponent is not None and exponent.size == 1 and x.element_type.kind == "float":
            number = exponent.item()
            if float(np.float32(number)) == number:
                return DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC(
                    InputTensor=x, OutputTensor=output, Exponent=float(number)
                )
        return DML_ELEMENT_WISE_POW_OPERATOR_DESC(InputTensor=x, ExponentTensor=y, OutputTensor=output)

    def _tensor(self, name: str, sizes: tuple[int, ...]) -> DML_BUFFER_TENSOR_DESC:
        kind = self._draft.types[name].type
        if kind not in _NAMES:
            raise NoExactForm(f"DirectML has no type {kind}")
        own = self._sizes(name)
        own = (1,) * (len(sizes) - len(own)) + own
        strides = None
        if own != sizes:
            dims = enumerate(zip(own, sizes, strict=True))
            strides = tuple(0 if dim == 1 != size else prod(own[axis + 1 :]) for axis, (dim, size) in dims)
        flags = "OWNED_BY_DML" if self._of(name) in self._draft.constants else "NONE"
        return DML_BUFFER_TENSOR_DESC(DataType=_NAMES[kind], Sizes=sizes, Strides=strides, Flags=flags)
