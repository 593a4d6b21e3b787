"""The neutral graph, which every front end makes and the runtime walks.

It holds names, types, shapes, constants and nodes. Only ``source`` belongs to a particular format: an object to pass to
that format's own library.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt

from halfulp.errors import HalfulpError
from halfulp.types import Shape, format_shape, type_name

Array: TypeAlias = npt.NDArray[Any]

MOST_DIMS = 64  # of NumPy's arrays


def is_countable(shape: Iterable[int]) -> bool:
    """Return whether NumPy can make arrays of a shape. It limits the other dims even if one is 0."""
    return math.prod(max(dim, 1) for dim in shape) < 1 << 60


def agree(a: Shape, b: Shape) -> bool:
    """Return whether two shapes may belong to one tensor."""
    if a is None or b is None:
        return True
    known = (pair for pair in zip(a, b, strict=False) if all(isinstance(dim, int) for dim in pair))
    return len(a) == len(b) and all(x == y for x, y in known)


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names in one line; of many names, the first ones."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def unused(wished: str, taken: Container[str]) -> str:
    """Return an unused name that resembles the one wished for."""
    names = chain([wished], (f"{wished}_{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


# Values and nodes are not frozen: a large model has many, and frozen ones take five times as long to make.
@dataclass(slots=True)
class Value:
    """The declaration of one named value.

    Example:
        >>> print(Value("X", "float32", (2, "N", None)))
        float32[2, N, ?]
    """

    name: str
    type: str | None = None  # the element type's name; None if nothing is declared
    shape: Shape = None  # None if the rank is unknown
    kind: str = "tensor"  # or sparse_tensor, sequence, map, optional, undeclared
    aliases: tuple[str, ...] = ()  # other names that a caller may use for an input or output

    def fits(self, array: Array) -> bool:
        """Return whether an array has this type and rank, and the dims that are known."""
        return self.type in (None, type_name(array.dtype)) and agree(self.shape, array.shape)

    def __str__(self) -> str:
        return describe(self.type, self.shape) if self.kind == "tensor" else self.kind


def describe(element_type: str | None, shape: Shape) -> str:
    """Return a type and shape as text."""
    return (element_type or "?") + ("" if shape is None else format_shape(shape))


@dataclass(slots=True, eq=False)
class Node:
    """One use of an operator."""

    label: str  # the node's name in messages: its own name, or its place in the file
    standard: str  # onnx or openvino
    domain: str  # empty for the standard's own operators
    type: str  # the operator's name as the file spells it
    version: str  # the version in force, as in the rows: since-version, opset or feature level
    opset: int  # the version that the file asks for
    inputs: tuple[str, ...]  # names; an empty one stands for an absent optional input
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)  # a subgraph is a Graph
    function: Graph | None = None  # the body, if the file itself defines the operator
    source: Any = None  # the format's own object for this node, for its library

    @property
    def operator(self) -> str:
        """The operator version's id, such as ``onnx.Pow-13``."""
        return f"{self.domain or self.standard}.{self.type}-{self.version}"

    @property
    def subgraphs(self) -> Iterator[Graph]:
        """The graphs among the attributes: the branches of an If, the body of a Loop."""
        return (value for value in self.attributes.values() if isinstance(value, Graph))

    @property
    def reads(self) -> set[str]:
        """The names that the node reads, and all those in its subgraphs."""
        names = set(self.inputs)
        for graph in self.subgraphs if self.attributes else ():
            names.update(*(node.reads for node in graph.nodes), (value.name for value in graph.outputs))
        return names


@dataclass(eq=False)
class Graph:
    """Nodes in the order of their evaluation, with inputs, outputs and constants."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: Mapping[str, Array]  # an input of the same name has this default
    nodes: tuple[Node, ...]
    declared: Mapping[str, Value]  # by name
    source: Any = None  # the format's own data that the graph does not hold

    @property
    def held(self) -> dict[str, Any]:
        """The constants, and the values of Constant nodes, by name."""
        nodes = (node for node in self.nodes if node.type == "Constant" and not node.domain)
        held = {name: value for node in nodes for name in node.outputs for value in node.attributes.values()}
        return {**held, **self.constants}

    @cached_property  # a graph that is not run does not need it
    def dead_after(self) -> tuple[tuple[str, ...], ...]:
        """For each node, the names that nothing reads after it."""
        read_later, dead = {value.name for value in self.outputs}, list[tuple[str, ...]]()
        for node in reversed(self.nodes):
            names = {*node.reads, *node.outputs} - read_later  # a value without readers dies with its maker
            read_later |= names
            dead.append(tuple(names))
        return tuple(reversed(dead))


@dataclass(eq=False)
class Model:
    """A graph, and the name of its file in messages."""

    file: str
    graph: Graph

    def with_outputs(self, names: Sequence[str]) -> Model:
        """Return the model with tensors of the graph as outputs, and no others."""
        outputs = tuple(Value(name, kind="undeclared") for name in names)
        return Model(self.file, replace(self.graph, outputs=outputs))


# --- the limit of an array's memory: the free memory of the machine and of the process's control groups ---

# Every machine has this much. Reading the system's files before each small array would take longer than the array.
_ALWAYS_THERE = 1 << 26


def guard_memory(shape: tuple[int, ...], itemsize: int, what: str) -> None:
    """Refuse an array that NumPy can't make or that does not fit into the free memory."""
    if len(shape) > MOST_DIMS:
        raise HalfulpError(f"{what} has too many dims", expected=f"at most {MOST_DIMS}", got=len(shape))
    size = math.prod(shape) * itemsize
    if size <= _ALWAYS_THERE and is_countable(shape):
        return
    memory = available_memory()
    if size > memory or not is_countable(shape):
        expected, got = f"at most {memory / 2**30:.3g} GiB", f"{size / 2**30:.3g} GiB"
        message = f"{what} would not fit into this computer's memory"
        raise HalfulpError(message, expected=expected, got=f"{got} for {format_shape(shape)}")


def available_memory(root: Path = Path("/")) -> int:
    """Return the number of bytes that this process may still take."""
    return max(min([_of_the_machine(root), *_of_the_groups(root)]), 0)


def _of_the_machine(root: Path) -> int:
    free = _number(root / "proc/meminfo", "MemAvailable:")
    if free is not None:
        return free << 10
    try:
        if sys.platform == "win32":
            # MEMORYSTATUSEX: length and load in 32 bits each, then numbers of 64 bits; the second is the free memory.
            status = (ctypes.c_uint64 * 8)(64)
            return int(status[2]) if ctypes.windll.kernel32.GlobalMemoryStatusEx(status) else sys.maxsize
        else:  # noqa: RET505  # or the type checker calls it unreachable for Windows
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not known on this system
        return sys.maxsize


# The tree of control groups, the files of one with its limit and its use, and its statistics' word for cached files.
_V1 = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
_V2 = "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"


def _of_the_groups(root: Path) -> Iterator[int]:
    """Yield the limits of this process's control groups and their parents."""
    lines = list[str]()
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text("utf-8", "replace").splitlines()
    for line in lines:
        # number:controllers:path. Version 2 has no controllers there; version 1 has a tree for each of them.
        _, controllers, path, *_ = (*line.split(":", 2), "", "")
        if controllers and "memory" not in controllers.split(","):
            continue
        tree, most, used, cache = _V1 if controllers else _V2
        group = root / tree / path.lstrip("/")
        # In a container the path may be the host's. A folder that does not exist sets no limit.
        while group.is_relative_to(root / tree):
            limit, taken = _number(group / most), _number(group / used)
            if limit is not None and taken is not None:
                # Cached files are dropped as soon as memory is needed.
                yield limit - taken + (_number(group / "memory.stat", cache) or 0)
            group = group.parent


def _number(file: Path, word: str | None = None) -> int | None:
    """Return the first number of a file, or the one after a word; None if there is none, as for "max"."""
    try:
        words = file.read_text().split()
        return int(words[0 if word is None else words.index(word) + 1])
    except (OSError, ValueError, IndexError):
        return None
