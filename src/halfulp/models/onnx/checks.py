"""The checks of an ONNX model before anything runs: versions, order, nesting, UTF-8, and each node by its schema."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeAlias

import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto

from halfulp.errors import REPAIR, ModelError, UnsupportedError, printable, within
from halfulp.models.onnx.tensors import TensorReader
from halfulp.models.onnx.walk import DEEPEST, MOST_NODES, Identity, is_ours, plain_domain, with_attributes
from halfulp.specs import in_force

Port: TypeAlias = onnx.defs.OpSchema.FormalParameter

_MOST_BYTES = 1 << 30  # of copied attributes: each node that refers to a function's attribute copies it
_LARGEST_OPSET = (1 << 31) - 1  # the onnx package's checker takes no larger one
_NEWER = "or a newer onnx package: pip install --upgrade onnx"
_MOST_KEPT = 4096  # bytes of attributes of a checked node that are remembered


@lru_cache(maxsize=1024)
def is_known(domain: str) -> bool:
    """Return whether the onnx package has operators of a domain."""
    return any(schema.domain == domain for schema in onnx.defs.get_all_schemas())


def label(proto: NodeProto, index: int, where: str) -> str:
    """Return a node's name in messages: the graph around it, its name or number, and its operator."""
    name = f"'{printable(proto.name)}'" if proto.name else f"#{index}"
    return f"{where and where + '.'}{name} ({printable(proto.op_type)})"


class Checks:
    """Checks of one model. Each raises a ModelError that names the file and the node.

    Attributes:
        nodes: the number of nodes so far, with those of each call of a function.
        height: the number of nested levels of the last subgraph or function that was left, itself included.
    """

    nodes = height = 0

    def __init__(self, file: str, ir_version: int) -> None:
        self._file = file
        self._ir_version = ir_version
        self._bytes = self._depth = self._deepest = 0
        self._passed: set[Hashable] = set()

    def fail(self, message: str, *, node: str | None = None, **shown: Any) -> NoReturn:
        """Raise a ModelError."""
        raise ModelError(message, file=self._file, node=node, **shown)

    def model(self, proto: ModelProto) -> None:
        """Refuse a message that is not a model, or that has a later IR version."""
        if not proto.HasField("ir_version") or proto.ir_version < 1:
            self.fail("not an ONNX model: it has no IR version")
        if proto.ir_version > onnx.IR_VERSION:
            newest = f"at most {onnx.IR_VERSION}, {_NEWER}"
            self.fail("its IR version is newer than the onnx package", expected=newest, got=proto.ir_version)
        if not proto.HasField("graph"):
            self.fail("has no graph")

    def opsets(self, imports: Iterable[onnx.OperatorSetIdProto], whose: str) -> dict[str, int]:
        """Return the imported version of each domain; refuse two versions of one, and versions that do not exist."""
        opsets: dict[str, int] = {}
        for entry in imports:
            domain, version = plain_domain(entry.domain), entry.version
            if opsets.setdefault(domain, version) != version:
                message = f"{whose} imports two versions of the domain {domain or 'ai.onnx'!r}"
                self.fail(message, expected="one", got=f"{opsets[domain]} and {version}")
            oldest, newest = (0, _LARGEST_OPSET) if domain else (1, onnx.defs.onnx_opset_version())
            if not oldest <= version <= newest:
                message = f"{whose} asks for an unknown opset of {domain or 'ai.onnx'!r}"
                newer = f", {_NEWER}" if version > newest else ""
                self.fail(message, expected=f"{oldest} to {newest}{newer}", got=version)
        return opsets

    def recursive(self, calls: Sequence[Identity], node: str | None = None) -> NoReturn:
        """Raise the error for a function, the last of these calls, that calls itself."""
        cycle = calls[calls.index(calls[-1]) :]
        names = ", ".join(printable(name) for _, name, _ in cycle)
        self.fail(f"the function {printable(calls[-1][1])!r} calls itself: {names}", node=node)

    def depth(self, levels: int, node: str | None = None) -> None:
        """Refuse graphs and functions that nest deeper than ``DEEPEST``."""
        if levels > DEEPEST:
            self.fail("its graphs and functions nest too deep", node=node, expected=f"at most {DEEPEST}")

    @contextmanager
    def deeper(self, node: str, levels: int = 1) -> Iterator[None]:
        """Enter a subgraph or a function's body, or ``levels`` of them, one within the other."""
        before, deepest = self._depth, self._deepest
        self._depth = self._deepest = before + levels
        self.depth(self._depth, node)
        yield
        self.height = self._deepest - before
        self._depth, self._deepest = before, max(deepest, self._deepest)

    def count(self, nodes: int) -> None:
        """Add to the nodes."""
        self.nodes += nodes
        if self.nodes > MOST_NODES:
            expected = f"at most {MOST_NODES}"
            self.fail(
                "its functions expand to too many nodes", expected=expected, got=f"{self.nodes} or more"
            )

    def copy(self, size: int) -> None:
        """Add to the bytes of attributes that functions copy."""
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            most = f"at most {_MOST_BYTES} bytes"
            self.fail("its functions copy too much of their attributes", expected=most)

    def unknown(self, domain: str, op_type: str, opset: int, node: str) -> NoReturn:
        """Raise a ModelError for an operator that does not exist; an UnsupportedError if its domain is unknown."""
        if is_known(domain):
            where = f"opset {opset}" if domain == "" else f"version {opset} of {domain!r}"
            self.fail(f"no operator {op_type!r} in {where}", node=node)
        raise UnsupportedError(
            f"{self._file}, node {node}: no operator {op_type!r} of the domain {domain!r}",
            expected="the operators of ONNX, or a function in the model",
        )

    def text(self, names: Iterable[object]) -> None:
        """Refuse names that are not UTF-8: protobuf returns them as bytes."""
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

    def node(
        self,
        proto: NodeProto,
        operands: Sequence[Sequence[str]],
        attributes: Sequence[AttributeProto],
        values: Mapping[str, Any],
        opsets: Mapping[str, int],
        label: str,
    ) -> None:
        """Check a node's numbers of inputs and outputs, its attributes, and that its operator is not deprecated.

        The onnx package's checker does so by the operator's schema. Nodes that differ only in the names of their
        values are checked once. The clauses of a Pow or PRelu come first, because the checker does not name them.

        Args:
            proto: the node.
            operands: its inputs and its outputs.
            attributes: its attributes, with references to a function's attributes replaced.
            values: the same as Python values.
            opsets: the version of each domain.
            label: the node's name in messages.
        """
        domain = plain_domain(proto.domain)
        inputs, outputs = operands
        seen = (
            (domain, proto.op_type, opsets.get(domain)),
            (*map(bool, inputs), None, *map(bool, outputs)),
            tuple([_without_data(attribute).SerializeToString() for attribute in attributes]),
        )
        if seen in self._passed:
            return
        if is_ours(proto):
            with within(self._file, label):
                row = in_force("onnx", proto.op_type, opsets[""])
                row.check_attributes(values)
                # Every version allows float32 of any shape.
                row.infer(*[("float32", None)] * len(proto.input))
        if (message := _refused(proto, attributes, opsets, self._ir_version)) is not None:
            if (version := None if domain else version_of(proto, opsets[""])) is not None:
                message += f"; it is written as in opset {version}"
                if proto.op_type == "BatchNormalization":
                    self.fail(message, node=label, run=REPAIR)
            self.fail(message, node=label)
        if not domain and (most := values.get("num_outputs", len(outputs))) < len(outputs):
            # Of a Split. The onnx package's inference would end the process.
            self.fail(
                "it names more outputs than num_outputs says", node=label, expected=most, got=len(outputs)
            )
        if sum(map(len, seen[-1])) <= _MOST_KEPT:
            self._passed.add(seen)

    def value(self, attribute: AttributeProto, tensors: TensorReader, node: str) -> Any:
        """Return an attribute as a Python value: number, text, list, or array for a tensor.

        Raises:
            ModelError: a tensor can't be read, a text is not UTF-8, or it is a list of subgraphs or has no type.
        """
        what = f"attribute {attribute.name!r}"
        if attribute.type not in _VALUES:
            if attribute.type == AttributeProto.UNDEFINED:
                self.fail(f"{what} states no type", node=node)
            self.fail(f"{what} has an unsupported type", node=node)
        try:
            return _VALUES[attribute.type](attribute, tensors, what)
        except UnicodeDecodeError:
            self.fail(f"{what} is not UTF-8", node=node)
        except ModelError as error:
            shown: Mapping[str, Any] = error.shown
            self.fail(error.message, node=node, **shown)


# --- one node -------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def schema_in_force(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """Return the schema of an operator at an opset, if any."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: an opset of more than 32 bits
        return None


class Ports(NamedTuple):
    """The inputs and the outputs of an operator, and the types of each type variable as schemas spell them."""

    inputs: Sequence[Port]
    outputs: Sequence[Port]
    allowed: Mapping[str, frozenset[str]]

    def types(self, port: Port) -> frozenset[str]:
        """Return the types that an input or output can have."""
        return self.allowed.get(port.type_str, frozenset((port.type_str,)))


def port_at(ports: Sequence[Port], index: int) -> Port:
    """Return the input or output of a place; the last one may stand for many."""
    return ports[min(index, len(ports) - 1)]


@lru_cache(maxsize=4096)  # because reading a schema is slow
def ports(op_type: str, opset: int) -> Ports | None:
    """Return the inputs and outputs of one of ONNX's own operators at an opset, if it exists."""
    schema = schema_in_force("", op_type, opset)
    if schema is None:
        return None
    allowed = {row.type_param_str: frozenset(row.allowed_type_strs) for row in schema.type_constraints}
    return Ports(schema.inputs, schema.outputs, allowed)


_RUN_DEPRECATED = {"GroupNormalization"}  # in opset 18; that of opset 21 takes other shapes


@lru_cache(maxsize=4096)
def _form(op_type: str, opset: int) -> tuple[frozenset[str], frozenset[str], tuple[range, range]] | None:
    """Return an operator's attributes, those that it needs, and how many inputs and outputs it can have."""
    schema = schema_in_force("", op_type, opset)
    if schema is None or (schema.deprecated and op_type not in _RUN_DEPRECATED):
        return None
    needed = (name for name, attribute in schema.attributes.items() if attribute.required)
    numbers = range(schema.min_input, schema.max_input + 1), range(schema.min_output, schema.max_output + 1)
    return frozenset(schema.attributes), frozenset(needed), numbers


def _refused(
    node: NodeProto, attributes: Iterable[AttributeProto], opsets: Mapping[str, int], ir_version: int
) -> str | None:
    """Return why the onnx package's checker refuses a node with these attributes; None if it accepts it."""
    bare = with_attributes(node, map(_without_data, attributes))
    context = onnx.checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = dict(opsets)
    if node.op_type in _RUN_DEPRECATED and opsets.get("", 0) in range(18, 21):
        context.opset_imports = {**opsets, "": 21}
    try:
        onnx.checker.check_node(bare, context)
    except onnx.checker.ValidationError as error:
        return printable(str(error).strip().splitlines()[0].rstrip("."))
    return None


def version_of(node: NodeProto, opset: int) -> int | None:
    """Return the opset nearest to this one in which a node is valid; None if it is valid in this one, or in none.

    Older ones come first: attributes that have become inputs are more frequent than the reverse.
    """
    if plain_domain(node.domain) or is_ours(node) or opset < 1:
        return None
    given = {attribute.name for attribute in node.attribute}

    def is_valid(version: int) -> bool:
        if (form := _form(node.op_type, version)) is None:
            return False
        allowed, needed, (inputs, outputs) = form
        fits = needed <= given <= allowed and len(node.input) in inputs and len(node.output) in outputs
        return fits and (
            version == opset or _refused(node, node.attribute, {"": version}, onnx.IR_VERSION) is None
        )

    if is_valid(opset) or opset > (newest := onnx.defs.onnx_opset_version()):
        return None
    return next(filter(is_valid, (*range(opset - 1, 0, -1), *range(opset + 1, newest + 1))), None)


def is_foreign(node: NodeProto, opset: int) -> bool:
    """Tell whether the onnx package does not know a node's operator. Runtimes have some of their own, in any domain."""
    return bool(plain_domain(node.domain)) or schema_in_force("", node.op_type, opset) is None


# Types are copied, because a part of a message would keep the whole message alive.
_VALUES: Mapping[int, Callable[[AttributeProto, TensorReader, str], Any]] = {
    AttributeProto.FLOAT: lambda a, tensors, what: a.f,
    AttributeProto.INT: lambda a, tensors, what: a.i,
    AttributeProto.STRING: lambda a, tensors, what: a.s.decode(),
    AttributeProto.TENSOR: lambda a, tensors, what: tensors.read(a.t, what),
    AttributeProto.SPARSE_TENSOR: lambda a, tensors, what: tensors.read_sparse(a.sparse_tensor, what),
    AttributeProto.TYPE_PROTO: lambda a, tensors, what: deepcopy(a.tp),
    AttributeProto.FLOATS: lambda a, tensors, what: list(a.floats),
    AttributeProto.INTS: lambda a, tensors, what: list(a.ints),
    AttributeProto.STRINGS: lambda a, tensors, what: [text.decode() for text in a.strings],
    AttributeProto.TENSORS: lambda a, tensors, what: [tensors.read(tensor, what) for tensor in a.tensors],
    AttributeProto.TYPE_PROTOS: lambda a, tensors, what: [deepcopy(proto) for proto in a.type_protos],
}


def _without_data(attribute: AttributeProto) -> AttributeProto:
    """Return an attribute without the data of its tensors and subgraphs, which are checked elsewhere.

    The checker would look for external data in the working directory, and would not find a subgraph's outer names.
    """
    bare = AttributeProto(name=attribute.name, type=attribute.type)
    match attribute.type:
        case AttributeProto.TENSOR:
            bare.t.CopyFrom(TensorProto(data_type=attribute.t.data_type, dims=[0]))
        case AttributeProto.GRAPH:
            bare.g.name = "body"
        case AttributeProto.SPARSE_TENSOR:
            kind = attribute.sparse_tensor.values.data_type
            bare.sparse_tensor.dims.append(1)
            bare.sparse_tensor.values.CopyFrom(TensorProto(name="v", data_type=kind, dims=[0]))
            bare.sparse_tensor.indices.CopyFrom(TensorProto(name="i", data_type=TensorProto.INT64, dims=[0]))
        case _:
            return attribute
    return bare
