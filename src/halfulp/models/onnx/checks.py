"""The checks of an ONNX model before anything runs: versions, order, nesting, UTF-8, and what a node may be."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from typing import Any, NoReturn

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from halfulp.errors import ModelError, SpecError, UnsupportedError, printable
from halfulp.models.onnx.tensors import TensorReader
from halfulp.models.onnx.walk import DEEPEST, MOST_NODES, Identity, is_ours, plain_domain
from halfulp.specs import in_force

_MOST_BYTES = 1 << 30  # of attributes: each node that refers to one copies it, and each call with other ones
_LARGEST_OPSET = (1 << 31) - 1  # that the onnx package's checker takes
_MOST_KEPT = 4096  # bytes of the attributes of a node that the checker has passed

_SCALARS = {AttributeProto.FLOAT: "f", AttributeProto.INT: "i"}
_LISTS = {AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints"}


class Scope:
    """The names that a node can see: those of its graph, then of the graphs around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.names: set[str] = set()
        self.made: Collection[str] = ()  # by the nodes of the graph, those to come included
        self._outer = outer

    def __contains__(self, name: str) -> bool:
        return name in self.names or (self._outer is not None and name in self._outer)

    def is_made(self, name: str) -> bool:
        """Return whether a node makes a value, of this graph or of one around it."""
        return name in self.made or (self._outer is not None and self._outer.is_made(name))


@lru_cache(maxsize=1024)
def is_known(domain: str) -> bool:
    """Return whether the onnx package has operators of a domain."""
    return any(schema.domain == domain for schema in onnx.defs.get_all_schemas())


def label(proto: NodeProto, index: int, where: str) -> str:
    """Return how messages name a node: its name or number, behind what it lies in, and its operator."""
    name = f"'{printable(proto.name)}'" if proto.name else f"#{index}"
    return f"{where and where + '.'}{name} ({printable(proto.op_type)})"


class Checks:
    """Checks of one model; each raises ModelError, naming the file and the node.

    Attributes:
        height: the levels of the subgraph or function that was left last: its own, and those within it.
    """

    height = 0

    def __init__(self, file: str) -> None:
        self._file = file
        self._nodes = 0
        self._bytes = 0
        self._depth = self._deepest = 0

    def fail(self, message: str, *, node: str | None = None, **shown: Any) -> NoReturn:
        """Raise a ModelError."""
        raise ModelError(message, file=self._file, node=node, **shown)

    def model(self, proto: ModelProto) -> None:
        """Refuse what is no model, or of an IR version yet to come."""
        if not proto.HasField("ir_version") or proto.ir_version < 1:
            self.fail("not an ONNX model: it has no IR version")
        if proto.ir_version > onnx.IR_VERSION:
            self.fail(
                "of an IR version that this onnx package does not know",
                expected=f"at most {onnx.IR_VERSION}",
                got=proto.ir_version,
            )
        if not proto.HasField("graph"):
            self.fail("has no graph")

    def opsets(self, imports: Iterable[onnx.OperatorSetIdProto], whose: str) -> dict[str, int]:
        """Return the version of each domain that is imported; one of each, and one that exists."""
        opsets: dict[str, int] = {}
        for entry in imports:
            self.text(entry.domain)
            domain, version = plain_domain(entry.domain), entry.version
            if opsets.setdefault(domain, version) != version:
                self.fail(f"{whose} imports two versions of the domain {domain or 'ai.onnx'!r}")
            newest = onnx.defs.onnx_opset_version() if domain == "" else _LARGEST_OPSET
            if not (1 if domain == "" else 0) <= version <= newest:
                self.fail(
                    f"{whose} asks for an unknown opset of {domain or 'ai.onnx'!r}",
                    expected=f"{1 if domain == '' else 0} to {newest}",
                    got=version,
                )
        return opsets

    def missing(self, name: str, scope: Scope, node: str) -> NoReturn:
        """Say why a node's input is not there: nothing makes it, or a node that needs this one in turn.

        The nodes are sorted (:mod:`halfulp.models.onnx.order`): only a cycle makes an input late.
        """
        if scope.is_made(name):
            self.fail(f"the graph has a cycle through its input {name!r}", node=node)
        self.fail(f"it reads {name!r}, which is no input, initializer or output", node=node)

    def recursive(self, calls: Sequence[Identity], node: str | None = None) -> NoReturn:
        """Say that a function, the last of these, calls itself by way of others."""
        cycle = calls[calls.index(calls[-1]) :]
        names = ", ".join(printable(name) for _, name, _ in cycle)
        self.fail(f"the function {printable(calls[-1][1])!r} calls itself: {names}", node=node)

    def depth(self, levels: int, node: str | None = None) -> None:
        """Refuse graphs and functions that are so many levels deep, one within the other."""
        if levels > DEEPEST:
            self.fail("its graphs and functions nest too deep", node=node, expected=f"at most {DEEPEST}")

    @contextmanager
    def deeper(self, node: str, levels: int = 1) -> Iterator[None]:
        """Enter a subgraph or a function's body; ``levels``: that many, one within the other."""
        before, deepest = self._depth, self._deepest
        self._depth = self._deepest = before + levels
        self.depth(self._depth, node)
        yield
        self.height = self._deepest - before
        self._depth, self._deepest = before, max(deepest, self._deepest)

    @property
    def nodes(self) -> int:
        """How many nodes the model has so far, those of every call of a function among them."""
        return self._nodes

    def count(self, nodes: int) -> None:
        """Add to the nodes."""
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            self.fail("its functions expand to too many nodes", expected=f"at most {MOST_NODES}")

    def copy(self, size: int) -> None:
        """Add to the bytes of attributes that functions copy."""
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            self.fail(
                "its functions copy too much of their attributes", expected=f"at most {_MOST_BYTES} bytes"
            )

    def unknown(self, domain: str, op_type: str, opset: int, node: str) -> NoReturn:
        """Say of an operator that it does not exist; UnsupportedError where nobody here knows its domain."""
        if is_known(domain):
            where = f"opset {opset}" if domain == "" else f"version {opset} of {domain!r}"
            self.fail(f"no operator {op_type!r} in {where}", node=node)
        raise UnsupportedError(
            f"{self._file}, node {node}: no operator {op_type!r} of the domain {domain!r}",
            expected="the operators of ONNX, or a function in the model",
        )

    def text(self, *names: object) -> None:
        """Refuse names that are not UTF-8, which protobuf hands out as bytes."""
        for name in names:
            if isinstance(name, bytes):
                self.fail("a name is not UTF-8", got=repr(name)[:80])

    def distinct(self, names: Iterable[str], what: str) -> None:
        """Refuse names that are empty or repeated."""
        seen: set[str] = set()
        for name in names:
            if not name or name in seen:
                self.fail(f"{what} {name!r} is defined twice" if name else f"{what} has no name")
            seen.add(name)


# --- one node -------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def schema_in_force(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return the schema of the operator version that an opset import puts in force, if any."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def attribute_value(attribute: AttributeProto, tensors: TensorReader, file: str, label: str) -> Any:
    """Return an attribute as a Python value: number, text, list, or array for a tensor.

    Raises:
        ModelError: for a tensor that can't be read, text that isn't UTF-8, a list of subgraphs
            (no operator of ONNX has one), or an attribute without a type.
    """
    kind = attribute.type
    what = f"attribute {attribute.name!r}"
    if kind in _SCALARS:
        return getattr(attribute, _SCALARS[kind])
    if kind in _LISTS:
        return list(getattr(attribute, _LISTS[kind]))
    try:
        if kind == AttributeProto.STRING:
            return attribute.s.decode()
        if kind == AttributeProto.STRINGS:
            return [text.decode() for text in attribute.strings]
    except UnicodeDecodeError:
        raise ModelError(f"{what} is not UTF-8", file=file, node=label) from None
    try:
        if kind == AttributeProto.TENSOR:
            return tensors.read(attribute.t, what)
        if kind == AttributeProto.TENSORS:
            return [tensors.read(tensor, what) for tensor in attribute.tensors]
        if kind == AttributeProto.SPARSE_TENSOR:
            return tensors.read_sparse(attribute.sparse_tensor, what)
    except ModelError as error:
        shown: Mapping[str, Any] = error.shown
        raise ModelError(error.message, file=file, node=label, **shown) from None
    # Copies, because a part of a message keeps the whole of it alive.
    if kind == AttributeProto.TYPE_PROTO:
        return deepcopy(attribute.tp)
    if kind == AttributeProto.TYPE_PROTOS:
        return [deepcopy(proto) for proto in attribute.type_protos]
    raise ModelError(f"{what} is of a type that nothing here takes", file=file, node=label)


def check_clauses(
    op_type: str, version: int, inputs: int, attributes: Mapping[str, Any], file: str, label: str
) -> None:
    """Compare a Pow's or PRelu's number of inputs and its attributes with its version's clauses.

    The onnx package's checker refuses the same, without saying which clause does.

    Raises:
        ModelError: a clause is broken.
    """
    row = in_force("onnx", op_type, version)
    try:
        row.check_attributes(attributes)
        row.infer(*[("float32", None)] * inputs)  # which every version allows, of any shape
    except SpecError as error:
        shown: Mapping[str, Any] = error.shown
        raise ModelError(error.message, file=file, node=label, clause=error.clause, **shown) from None


class NodeChecks:
    """Compares nodes with their operators' schemas, by the onnx package's checker.

    It asks the checker once for nodes that are alike in everything that the checker looks at. Names of values are not
    part of that, apart from empty ones.
    """

    def __init__(self, file: str, ir_version: int) -> None:
        self._file = file
        self._ir_version = ir_version
        self._passed: set[Hashable] = set()

    def check(
        self,
        proto: NodeProto,
        domain: str,
        operands: Sequence[Sequence[str]],
        attributes: Sequence[AttributeProto],
        values: Mapping[str, Any],
        opsets: Mapping[str, int],
        label: str,
    ) -> None:
        """Check one node.

        Args:
            proto: the node.
            domain: its operator's domain, in its plain form.
            operands: its inputs, and its outputs.
            attributes: its attributes, with references to those of a function replaced.
            values: the same as Python values.
            opsets: the version of each domain that is imported around it.
            label: how messages name it.

        Raises:
            ModelError: number of inputs or outputs, attributes that are missing, unknown or of the
                wrong type, or a deprecated operator.
        """
        seen = (
            (domain, proto.op_type, opsets.get(domain)),
            tuple([tuple(map(bool, names)) for names in operands]),
            tuple([_without_data(attribute).SerializeToString() for attribute in attributes]),
        )
        if seen in self._passed:
            return
        if is_ours(proto):
            check_clauses(proto.op_type, opsets[""], len(proto.input), values, self._file, label)
        bare = NodeProto(
            name=proto.name,
            domain=domain,
            op_type=proto.op_type,
            input=proto.input,
            output=proto.output,
            attribute=map(_without_data, attributes),
        )
        context = onnx.checker.C.CheckerContext()
        context.ir_version = self._ir_version
        context.opset_imports = dict(opsets)
        try:
            onnx.checker.check_node(bare, context)
        except onnx.checker.ValidationError as error:
            message = printable(str(error).strip().splitlines()[0].rstrip("."))
            raise ModelError(message, file=self._file, node=label) from None
        if sum(map(len, seen[-1])) <= _MOST_KEPT:
            self._passed.add(seen)


def _without_data(attribute: AttributeProto) -> AttributeProto:
    """Return an attribute without the data of its tensors and subgraphs, which are checked elsewhere.

    The checker would look for external data in the working directory, and for a subgraph's outer names nowhere.
    """
    if attribute.type == AttributeProto.TENSOR:
        shell = TensorProto(data_type=attribute.t.data_type, dims=[0])
        return AttributeProto(name=attribute.name, type=attribute.type, t=shell)
    if attribute.type == AttributeProto.GRAPH:
        return AttributeProto(name=attribute.name, type=attribute.type, g=GraphProto(name="body"))
    return _shell_of_sparse(attribute) if attribute.type == AttributeProto.SPARSE_TENSOR else attribute


def _shell_of_sparse(attribute: AttributeProto) -> AttributeProto:
    sparse = attribute.sparse_tensor
    shell = onnx.SparseTensorProto(
        dims=[1],
        values=TensorProto(name="v", data_type=sparse.values.data_type, dims=[0]),
        indices=TensorProto(name="i", data_type=TensorProto.INT64, dims=[0]),
    )
    return AttributeProto(name=attribute.name, type=attribute.type, sparse_tensor=shell)
