"""Rewriting the nodes of an ONNX model: its graph, its subgraphs, its functions; each Pow and PRelu by its clauses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto

from halfulp.conversion.editor import Change, Editor, NoExactForm
from halfulp.errors import REPAIR, HalfulpError, SpecError, UnsupportedError, printable, within
from halfulp.models.graph import Value, agree, describe, listed
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import FunctionTypes, ValueInfo, infer_types
from halfulp.models.onnx.tensors import TensorReader
from halfulp.models.onnx.walk import (
    Owner,
    attributes_of,
    every_node,
    graphs,
    identity,
    inner_path,
    is_ours,
    owners_of,
    plain_domain,
    reached,
    read_names,
    root,
    scopes,
    subgraphs,
    value_names,
)
from halfulp.specs import OpVersion, in_force
from halfulp.specs.tensor import Shape, TensorType

Wanted = Callable[[NodeProto], bool]
Rewrite = Callable[[NodeProto, Editor], None]
_Task = tuple[int, Wanted, Rewrite, str, bool]

_MOST_COPIES = 256  # of functions, for calls with other types


class Walk:
    """The rewriting of one model, in place; several may follow each other.

    Args:
        model: one that the front end accepts. Functions that nothing calls are left out.
        file: its name in messages.
        folder: where its external data lies.

    Attributes:
        refused: the nodes that have no exact form, by their outputs: name, where they have none, and why. They
            are collected where a rewriting asks for that.
        changes: those that :meth:`told` has not returned yet.
        made: the outputs of nodes that were added.
    """

    def __init__(self, model: ModelProto, file: str, folder: Path | None) -> None:
        self.model = model
        self.file = file
        self.folder = folder
        self.refused: dict[str, tuple[str, str, str]] = {}
        self.changes = drop_unreached(model, file)
        self._names = set(value_names(model.graph, *model.functions))
        self._types = infer_types(model, file)
        self._read: set[str] | None = None  # the names that were read before anything was changed
        self.made: set[str] = set()
        functions = FunctionTypes(model, self._types, file)
        for types in [functions.of(function) for function in model.functions]:
            self._types |= types
        self._held = {tensor.name for tensor in model.graph.initializer}
        self._reader = TensorReader(file, folder)
        self._value_info: dict[str, ValueInfo] = {}  # by path

    @property
    def owners(self) -> Iterator[tuple[Owner, int]]:
        """The model's functions that use ONNX's own operators, then its graph, with their opsets."""
        return owners_of(self.model)

    def told(self) -> list[Change]:
        """Return the changes since the last call."""
        changes, self.changes = self.changes, []
        return changes

    def rewrite_all(
        self, wanted: Wanted, rewrite: Rewrite, where: str = "", *, collect: bool = False
    ) -> None:
        """Rewrite nodes of all :attr:`owners`, each in its opset, as :meth:`rewrite` does it."""
        for owner, opset in self.owners:
            self.rewrite(owner, opset, wanted, rewrite, where, collect=collect)

    def rewrite(
        self,
        owner: Owner,
        opset: int,
        wanted: Wanted,
        rewrite: Rewrite,
        where: str = "",
        *,
        collect: bool = False,
    ) -> None:
        """Rewrite the nodes of ONNX's own domain that are wanted, in one of :attr:`owners` and its subgraphs.

        ``rewrite`` adds the replacement of a node, or raises NoExactForm: then ``where``, a target or the opset, has
        no form for it. With ``collect``, such a node is noted in :attr:`refused` and left alone from then on.

        Raises:
            UnsupportedError: of NoExactForm, naming file and node.
            ModelError: of any other HalfulpError, naming file and node.
        """
        task = opset, wanted, rewrite, where or f"opset {opset}", collect
        if isinstance(owner, GraphProto):
            return self._walk(owner, None, "", task)
        before = set(read_names(owner))
        self._walk(owner, None, root(owner), task)
        return _drop(owner.node, before - set(read_names(owner)))

    def sweep(self) -> bool:
        """Drop constants that have lost their readers; tell whether there are new initializers."""
        if self._read is None:  # nothing was changed
            return False
        made = {tensor.name for tensor in self.model.graph.initializer} - self._held
        useless = (self._read | made) - set(read_names(self.model.graph))
        for _, each in graphs(self.model.graph) if useless else ():
            _drop(each.node, useless)
            _drop(each.initializer, useless - {info.name for info in each.input})
        return not made <= useless

    @cached_property
    def _labels(self) -> dict[str, dict[str, str]]:
        """The name of each node in messages, before any node moves: by path, then by output."""
        found: dict[str, dict[str, str]] = defaultdict(dict)

        def note(path: str, owner: Owner, where: str) -> None:
            labels = found[path]
            for index, node in enumerate(owner.node):
                name = label(node, index, where)
                labels.update(dict.fromkeys(node.output, name))
                for attribute, graph in subgraphs(node) if node.attribute else ():
                    note(inner_path(path, node, attribute), graph, f"{name}.{attribute}")

        for function in self.model.functions:
            note(root(function), function, function.name)
        note("", self.model.graph, "")
        return found

    def label(self, path: str, node: NodeProto) -> str:
        """Return the name in messages of a node of the graph with a path."""
        labels = self._labels[path]
        return next((labels[output] for output in node.output if output in labels), node.op_type)

    def _known(self, owner: Owner, outer: ValueInfo | None, path: str) -> ValueInfo:
        """Return the known types and shapes of the values that a graph's nodes can see, with added ones."""
        if path not in self._value_info:
            types = self._types.setdefault(path, {})
            self._value_info[path] = known = ValueInfo(types, self._reader, outer)
            known.add_constants(owner, self.model.ir_version)
        return self._value_info[path]

    def graphs(self, only: Owner | None = None) -> Iterator[tuple[str, Owner, ValueInfo, int]]:
        """Yield :attr:`owners`, or one of them, and the graphs within: path, graph, its values' types, opset."""
        for owner, opset in self.owners:
            if only is None or only is owner:
                yield from ((*scope, opset) for scope in scopes(owner, self._known))

    def _walk(self, owner: Owner, outer: ValueInfo | None, path: str, task: _Task) -> None:
        opset, wanted, rewrite, where, collect = task
        known = self._known(owner, outer, path)
        edit = Editor(owner, known, self._names, opset)
        changed, before = False, len(owner.node)
        for node in owner.node:
            for attribute, graph in subgraphs(node) if node.attribute else ():
                self._walk(graph, known, inner_path(path, node, attribute), task)
            is_wanted = wanted(node) and not plain_domain(node.domain)
            if not is_wanted or (self.refused and not self.refused.keys().isdisjoint(node.output)):
                edit.nodes.append(node)
                continue
            made = len(edit.nodes)
            edit.start(node, partial(self.label, path, node) if self.made.isdisjoint(node.output) else None)
            try:
                rewrite(node, edit)
            except NoExactForm as error:
                name = self.label(path, node)
                if not collect:
                    with within(self.file, name):
                        raise UnsupportedError(f"no exact form in {where}: {error.why}") from None
                edit.nodes[made:] = [node]
                self.refused.update(dict.fromkeys(filter(None, node.output), (name, where, error.why)))
            except (HalfulpError, MemoryError):
                with within(self.file, self.label(path, node)):
                    raise
            new = edit.nodes[made:]
            if len(new) == 1 and new[0] is node:
                continue
            changed = True
            name, labels = self.label(path, node), self._labels[path]
            for each in new:
                self.made.update(output for output in each.output if output not in labels)
                labels.update(dict.fromkeys(each.output, name))
        if changed:
            if self._read is None:
                self._read = set(read_names(self.model.graph))
            owner.node.extend([node for node in edit.nodes if id(node) not in edit.dropped])
            del owner.node[:before]
        self.changes += edit.changes


def drop_unreached(model: ModelProto, file: str) -> list[Change]:
    """Remove the functions that a model's graph does not reach; return the changes."""
    kept = {identity(function) for function in reached(model)}
    names = [function.name for function in model.functions if identity(function) not in kept]
    for index in reversed(range(len(model.functions))):
        if identity(model.functions[index]) not in kept:
            del model.functions[index]
    return (
        [Change(file, f"functions that nothing calls are left out: {listed(names, most=4)}")] if names else []
    )


def separate(model: ModelProto, file: str) -> list[Change]:
    """Give the calls of a function of Pow or PRelu with other types or shapes a copy of it; return the changes.

    Each of a chain of functions may call the next one twice. So the number of copies is limited.
    """
    changes: list[Change] = []
    before = -1
    while before < len(changes):  # the calls within a copied function may differ now
        before = len(changes)
        types = FunctionTypes(model, infer_types(model, file), file)
        names = {function.name for function in model.functions}
        for function in [*model.functions]:
            if not any(map(is_ours, every_node(function, *reached(model, function)))):
                continue
            for calls in types.kinds(function)[1:]:
                if len(changes) == _MOST_COPIES:
                    return changes
                name = next(n for i in count(2) if (n := f"{function.name}_{i}") not in names)
                names.add(name)
                model.functions.add().CopyFrom(function)
                model.functions[-1].name = name
                for call in calls:
                    call.node.op_type = name
                said = f"the function {printable(function.name)} is copied as {printable(name)}"
                changes.append(Change(file, f"{said} for calls with other types or shapes"))
    return changes


def _drop(parts: Any, useless: set[str]) -> None:
    """Drop initializers or Constant nodes. To delete them one by one would move all behind it each time."""

    def is_useless(part: Any) -> bool:
        if isinstance(part, NodeProto):
            return part.op_type == "Constant" and set(part.output) <= useless
        return part.name in useless

    parts.sort(key=is_useless)  # stable, and copies nothing
    del parts[sum(not is_useless(part) for part in parts) :]


# --- clauses --------------------------------------------------------------------------------------


def check_clauses(walk: Walk) -> Walk:
    """Refuse a model if a Pow or PRelu breaks a clause of its version, also in subgraphs and functions.

    Returns:
        The walk, with a change for each slope that only fits some sizes of X.

    Raises:
        ModelError: a node breaks a clause, by the types and shapes that are declared or inferred.
    """
    for path, graph, known, opset in walk.graphs():
        for node in filter(is_ours, graph.node):
            if (error := breach(node, opset, known)) is not None:
                with within(walk.file, walk.label(path, node)):
                    raise error.with_hint(REPAIR)
            if node.op_type == "PRelu":
                x, slope = (known.value(name).shape for name in node.input)
                if (needed := fits_only_if(in_force("onnx", "PRelu", opset), x, slope)) is not None:
                    doubt = f"the slope fits only if {needed}; halfulp repair gives it another shape"
                    walk.changes.append(Change(walk.label(path, node), doubt, is_notice=True))
    return walk


def breach(node: NodeProto, opset: int, known: ValueInfo, *, output: bool = True) -> SpecError | None:
    """Return the error if a Pow or PRelu breaks a clause of its version for all inputs."""
    *operands, result = map(known.value, (*node.input, [*node.output, ""][0] if output else ""))
    is_open = any(attribute.ref_attr_name for attribute in node.attribute)
    if is_open or any(operand.type is None for operand in operands):
        return None
    row = in_force("onnx", node.op_type, opset)
    return next(breaches(row, operands, result, attributes_of(node)), None)


def fits_only_if(row: OpVersion, x: Shape, slope: Shape) -> str | None:
    """Return the condition on X's unknown shape under which a one-dim slope fits; None if that is known.

    If the last dim is unknown, a slope of shape [C] is more often a per-channel slope than a correct one.
    """
    *ones, size = slope or (1,)
    _, channels, *_, last = (None, None, None) if x is None else x if len(x) > 2 else (1, 1, 1)
    is_row = all((row.broadcasting.name == "unidirectional", {*ones} <= {1}, size not in (1, None)))
    is_known = any((isinstance(size, str), isinstance(last, int)))
    if is_known or not is_row or (isinstance(channels, int) and channels != size):  # it can't be per channel
        return None
    return f"the last dim of X{'' if last is None else f', {last},'} has {size} elements"


def breaches(
    row: OpVersion, operands: Sequence[Value], output: Value, attributes: Mapping[str, Any]
) -> Iterator[SpecError]:
    """Yield an error for each clause that a node breaks for every choice of its unknown types and dims."""
    try:
        row.check_attributes(attributes)
    except SpecError as error:
        yield error
        attributes = _allowed(row, attributes)
    types, shapes = [each.type for each in operands], [each.shape for each in operands]
    # Unknown types are assumed to be right. A second round assumes it of all types, to check shapes.
    for given in (types, [None] * len(types)):
        try:
            result = row.infer(*map(TensorType, _types(row, given), shapes), **attributes)
        except SpecError as error:
            yield error
            continue
        is_other = given is types and types[:1] != [None] and output.type not in (None, result.type)
        if is_other or not agree(output.shape, result.shape):
            said = f"{row.outputs[0].name} is declared otherwise"
            yield row.error("output", said, expected=result, got=describe(output.type, output.shape))
        return


def _allowed(row: OpVersion, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are valid on their own."""
    kept: dict[str, Any] = {}
    required = {a.name: attributes[a.name] for a in row.attributes if a.required and a.name in attributes}
    for name, value in attributes.items():
        with suppress(SpecError):
            row.check_attributes({**required, name: value})
            kept[name] = value
    return kept


def _types(row: OpVersion, given: Sequence[str | None]) -> list[str]:
    """Return the types of operands. An unknown one becomes that of the same type variable, or an allowed one."""
    variables = [row.inputs[min(index, len(row.inputs) - 1)].type for index in range(len(given))]
    known = {variable: kind for variable, kind in reversed([*zip(variables, given, strict=True)]) if kind}
    return [
        kind or known.get(variable, row.type_variables[variable][0])
        for variable, kind in zip(variables, given, strict=True)
    ]
