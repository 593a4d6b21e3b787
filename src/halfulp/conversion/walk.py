"""Rewriting the nodes of an ONNX model: its graph, its subgraphs, its functions; each Pow and PRelu by its clauses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

from onnx import GraphProto, NodeProto

from halfulp.conversion.editor import Change, Editor, NoExactForm
from halfulp.errors import REPAIR, HalfulpError, SpecError, printable, within
from halfulp.models.graph import Value, agree, describe, listed, unused
from halfulp.models.onnx import Onnx, walk
from halfulp.models.onnx.infer import Scope, Types, infer_functions
from halfulp.specs import OpVersion, in_force
from halfulp.types import Shape, TensorType

Owner = walk.Owner
Wanted = Callable[[NodeProto], bool]
Rewrite = Callable[[NodeProto, Editor], None]

_MOST_COPIES = 256  # of functions, for calls with other types


class Walk(Onnx):
    """A model that is rewritten in place; several walks may follow each other.

    ``types`` are those that were inferred of an equal model, by graph.

    Attributes:
        refused: the nodes that have no exact form, by their outputs: name, where they have none, and why.
        changes: the changes so far.
        made: the outputs of nodes that were added.
    """

    def __init__(self, model: Onnx, *, types: Mapping[str, Types] | None = None) -> None:
        super().__init__(model.proto, model.file, model.folder)
        if types is not None:
            self.types = {path: {**values} for path, values in types.items()}
        self.refused: dict[str, tuple[str, str, str]] = {}
        self.changes: list[Change] = []
        self.made: set[str] = set()
        self._owners = self.proto.graph, *self.proto.functions
        self._names = cache(lambda: walk.value_names(*self._owners))
        self._held = {tensor.name for tensor in self.proto.graph.initializer}
        self._read: list[set[str]] = []  # the names that graph and functions read before anything was changed

    def rewrite(self, wanted: Wanted, rewrite: Rewrite, where: str = "", *of: tuple[Owner, int]) -> None:
        """Rewrite the nodes of ONNX's own domain that are wanted, in the functions and the graph, and in subgraphs.

        ``rewrite`` adds the replacement of a node, or raises NoExactForm: then ``where``, a target or the opset, has
        no form for it. Such a node is noted in :attr:`refused` and left alone from then on. ``of`` are functions and
        the graph, each with its opset; by default all.

        Raises:
            ModelError: of any other HalfulpError, naming file and node.
        """
        for owner, opset in of or walk.owners_of(self.proto):
            self._walk(self.scope(owner, opset), wanted, rewrite, where or f"opset {opset}")

    def sweep(self) -> bool:
        """Drop constants that have lost their readers; tell whether there are new initializers."""
        made = {tensor.name for tensor in self.proto.graph.initializer} - self._held
        for owner, before in zip(self._owners, self._read, strict=False):
            useless = (before | made | self.made) - set(walk.read_names(owner))
            for _, each in walk.graphs(owner) if useless else ():
                _drop(each.node, useless)
                if isinstance(each, GraphProto):
                    _drop(each.initializer, useless - {info.name for info in each.input})
        return any(tensor.name in made for tensor in self.proto.graph.initializer)

    def _walk(self, scope: Scope, wanted: Wanted, rewrite: Rewrite, where: str) -> None:
        owner, edit = scope.owner, Editor(scope, self._names)
        changed, nodes, done = False, [*owner.node], 0
        for index, node in enumerate(nodes):
            for inner in self.within(scope, index, node) if scope.has_bodies else ():
                self._walk(inner, wanted, rewrite, where)
            if not wanted(node) or walk.plain_domain(node.domain) or self.refused.keys() & {*node.output}:
                continue
            edit.nodes += nodes[done:index]
            made, noted, done, name = len(edit.nodes), len(edit.changes), index + 1, scope.label(node)
            edit.start(node, name if self.made.isdisjoint(node.output) else "")
            try:
                rewrite(node, edit)
            except NoExactForm as error:
                edit.nodes[made:], edit.changes[noted:] = [node], []
                self.refused.update(dict.fromkeys(filter(None, node.output), (name, where, error.message)))
            except (HalfulpError, MemoryError):
                with within(self.file, name):
                    raise
            new = edit.nodes[made:]
            if len(new) == 1 and new[0] is node:
                continue
            changed = True
            for each in new:
                self.made.update(output for output in each.output if output not in scope.labels)
                scope.labels.update(dict.fromkeys(each.output, name))
        if changed:
            if not self._read:
                self._read = [set(walk.read_names(each)) for each in self._owners]
                self._labels = [each.labels for each in self.scopes()]  # before any node moves
            edit.nodes += nodes[done:]
            owner.node.extend([node for node in edit.nodes if id(node) not in edit.dropped])
            del owner.node[: len(nodes)]
        self.changes += edit.changes


def drop_unreached(model: Onnx) -> list[Change]:
    """Remove the functions that a model's graph does not reach; return the changes."""
    functions = model.proto.functions
    kept = {walk.identity(function) for function in walk.reached(model.proto)}
    names = [function.name for function in functions if walk.identity(function) not in kept]
    functions.sort(key=lambda function: walk.identity(function) not in kept)  # stable
    del functions[len(functions) - len(names) :]
    said = f"functions that nothing calls are left out: {listed(names, most=4)}"
    return [Change(model.file, said)] if names else []


def separate(model: Onnx) -> list[Change]:
    """Give the calls of a function of Pow or PRelu with other types or shapes a copy of it; return the changes."""
    changes: list[Change] = []
    proto, before = model.proto, -1
    while before < len(changes):  # the calls within a copied function may differ now
        before = len(changes)
        _, kinds = infer_functions(proto, model.file)
        names = {function.name for function in proto.functions}
        for function in [*proto.functions]:
            if not any(map(walk.is_ours, walk.every_node(function, *walk.reached(proto, function)))):
                continue
            for _, calls in kinds.get(walk.identity(function), [])[1:]:
                if len(changes) == _MOST_COPIES:  # each of a chain of functions may call the next one twice
                    return changes
                names.add(name := unused(function.name, names))
                proto.functions.add().CopyFrom(function)
                proto.functions[-1].name = name
                for call in calls:
                    call.op_type = name
                said = f"the function {printable(function.name)} is copied as {printable(name)}"
                changes.append(Change(model.file, f"{said} for calls with other types or shapes"))
    return changes


def _drop(parts: Any, useless: set[str]) -> None:
    """Drop initializers or Constant nodes. To delete them one by one would move all behind it each time."""

    def is_useless(part: Any) -> bool:
        is_node = isinstance(part, NodeProto)
        return part.op_type == "Constant" and set(part.output) <= useless if is_node else part.name in useless

    parts.sort(key=is_useless)  # stable, and copies nothing
    del parts[sum(not is_useless(part) for part in parts) :]


# --- clauses --------------------------------------------------------------------------------------


def check_clauses(model: Onnx) -> list[Change]:
    """Return a notice for each slope that only fits some sizes of X, also in subgraphs and functions.

    Raises:
        ModelError: a Pow or PRelu breaks a clause of its version, by the types and shapes that are known.
    """
    doubts: list[Change] = []
    has_ours = any(map(walk.is_ours, walk.every_node(model.proto.graph, *walk.reached(model.proto))))
    for scope in model.scopes() if has_ours else ():  # whose types are slow to infer
        for node in filter(walk.is_ours, scope.owner.node):
            if (error := breach(node, scope)) is not None:
                with within(model.file, scope.label(node)):
                    raise SpecError(error.clause, error.message, **error.shown, run=REPAIR)
            if node.op_type == "PRelu" and len(node.input) == 2:
                x, slope = (scope.value(name).shape for name in node.input)
                if needed := fits_only_if(in_force("onnx", "PRelu", scope.opset), x, slope):
                    doubt = f"the slope fits only if {needed}; if it is meant for another dim, halfulp repair moves it"
                    doubts.append(Change(scope.label(node), doubt, is_notice=True))
    return doubts


def breach(node: NodeProto, known: Scope, row: OpVersion | None = None) -> SpecError | None:
    """Return the error if a Pow or PRelu breaks a clause of its version for all inputs.

    ``row`` is another version, for whose terms the output, which may still be declared otherwise, does not count.
    """
    *operands, result = map(known.value, (*node.input, "" if row else [*node.output, ""][0]))
    row = row or in_force("onnx", node.op_type, known.opset)
    is_open = any(attribute.ref_attr_name for attribute in node.attribute)
    if is_open or any(operand.type is None for operand in operands):
        return None
    types = tuple([(operand.type, operand.shape) for operand in (*operands, result)])
    if not node.attribute and _breaks_none(row, types):
        return None
    return next(breaches(row, operands, result, walk.attributes_of(node)), None)


@lru_cache(maxsize=4096)
def _breaks_none(row: OpVersion, types: tuple[tuple[str | None, Shape], ...]) -> bool:
    """Tell whether operands and a result of such types and shapes, without attributes, break no clause."""
    *operands, result = [Value("", *each) for each in types]
    return next(breaches(row, operands, result, {}), None) is None


def fits_only_if(row: OpVersion, x: Shape, slope: Shape) -> str | None:
    """Return the condition on X's unknown shape under which a slope fits; None if that is known, or it has the place
    of a slope per channel.

    If the last dim is unknown, a slope of shape [C] is more often a per-channel slope than a correct one.
    """
    if row.broadcasting.name != "unidirectional" or slope is None or (x is not None and len(x) < len(slope)):
        return None
    if x is None:
        x = (1, 1, None) if {*slope[:-1]} <= {1} else ()
    needed, last = [], len(x) - 1
    for axis, (dim, size) in enumerate(zip(x, (1,) * (len(x) - len(slope)) + slope, strict=False)):
        if axis != min(1, last) and not isinstance(dim, int) and isinstance(size, int) and size != 1:
            which = f"{'the last dim' if axis == last else f'dim {axis}'} of X{f', {dim},' if dim else ''}"
            needed.append(f"{which} has {size} elements")
    return " and ".join(needed) or None


def breaches(
    row: OpVersion, operands: Sequence[Value], output: Value, attributes: Mapping[str, Any]
) -> Iterator[SpecError]:
    """Yield an error for each clause that a node breaks for every choice of its unknown types and dims."""
    try:
        row.check_attributes(attributes)
    except SpecError as error:
        yield error
        required = {a.name: attributes[a.name] for a in row.attributes if a.required and a.name in attributes}
        valid = dict[str, Any]()  # on their own
        for name, value in attributes.items():
            with suppress(SpecError):
                row.check_attributes({**required, name: value})
                valid[name] = value
        attributes = valid
    types, shapes = [each.type for each in operands], [each.shape for each in operands]
    # Unknown types are assumed to be right. A second round assumes it of all types, to check shapes.
    for given in (types, [None] * len(types)):
        try:
            result = row.infer(*map(TensorType, _types(row, given), shapes), **attributes)
        except SpecError as error:
            own = {port.name: operand for port, operand in zip(row.inputs, operands, strict=False)}
            error.shown.update((name, own[name]) for name in error.shown.keys() & own.keys())
            yield error
            continue
        is_other = given is types and types[:1] != [None] and output.type not in (None, result.type)
        if is_other or not agree(output.shape, result.shape):
            said = f"{row.outputs[0].name} is declared otherwise"
            yield row.error("output", said, expected=result, got=describe(output.type, output.shape))
        return


def _types(row: OpVersion, given: Sequence[str | None]) -> list[str]:
    """Return the types of operands. An unknown one becomes that of the same type variable, or an allowed one."""
    pairs = [(row.inputs[min(index, len(row.inputs) - 1)].type, kind) for index, kind in enumerate(given)]
    known = {variable: kind for variable, kind in reversed(pairs) if kind}
    return [kind or known.get(variable, row.type_variables[variable][0]) for variable, kind in pairs]
