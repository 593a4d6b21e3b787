"""The checks of an ONNX model that need no more than names: versions, order, nesting, UTF-8."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NoReturn

import onnx
from onnx import ModelProto, NodeProto

from halfulp.errors import ModelError, UnsupportedError, printable
from halfulp.models.onnx.nodes import plain_domain

# A function may call another twice, that one a third twice: a small file can stand for more nodes
# than a computer can hold.
_MOST_NODES = 1_000_000
_MOST_BYTES = 1 << 30  # of attributes: each node that refers to one copies it, and each call with other ones
_LARGEST_OPSET = (1 << 31) - 1  # that the onnx package's checker takes
DEEPEST = 64
"""How deep functions may call functions, and graphs be within graphs."""


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

    @contextmanager
    def deeper(self, node: str, levels: int = 1) -> Iterator[None]:
        """Enter a subgraph or a function's body; ``levels``: that many, one within the other."""
        before, deepest = self._depth, self._deepest
        self._depth = self._deepest = before + levels
        if self._depth > DEEPEST:
            self.fail("its graphs and functions nest too deep", node=node, expected=f"at most {DEEPEST}")
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
        if self._nodes > _MOST_NODES:
            self.fail("its functions expand to too many nodes", expected=f"at most {_MOST_NODES}")

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
