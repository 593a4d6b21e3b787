"""The operations of the core's functions, read from the output of programs/traced.h."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from proofs.compiled import FOLDER, output, program
from proofs.step import once


@dataclass(frozen=True)
class Constant:
    """A constant. (A class of its own, since a Fraction may equal the number of a node.)"""

    value: Fraction


Operand = int | Constant  # a node, by its number, or a constant


@dataclass(frozen=True)
class Node:
    """An operation (add, sub, mul, div, fma, neg, abs, sqrt), an input, or a number made from bits or an integer.
    `single`: rounded to float."""

    operation: str
    operands: tuple[Operand, ...] = ()
    name: str = ""
    single: bool = False


@dataclass
class Function:
    """The operations of one call of a function."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    outputs: dict[str, Operand] = field(default_factory=dict)
    looked_at: list[int] = field(default_factory=list)  # nodes whose bits integers read, in order
    first: list[int] = field(default_factory=list)  # of each node: the first that is the same operation

    def add(self, node: Node) -> None:
        """Return a node whose operands are the first equal ones."""
        made = node.operation in ("input", "from_bits", "from_integer")
        known = None if made or node not in self.nodes else self.nodes.index(node)
        self.first.append(len(self.nodes) if known is None else known)
        self.nodes.append(node)

    def operand(self, word: str) -> Operand:
        return self.first[int(word[1:])] if word.startswith("n") else Constant(Fraction(float.fromhex(word)))

    def made(self) -> list[int]:
        """Return the nodes made by integers, in order."""
        return [i for i, node in enumerate(self.nodes) if node.operation in ("from_bits", "from_integer")]


@dataclass
class Trace:
    """The functions and constants of the core that a program printed, by name."""

    functions: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, Fraction] = field(default_factory=dict)


@once
def trace(source: str, core: Path, instruction_set: str, *folders: str) -> Trace:
    """Run proofs/programs/<source>, compiled with a copy of core/. `folders`: headers that replace the system's."""
    found = Trace()
    for line in output(
        program(source, core, instruction_set, "-O0", *(f"-I{FOLDER / folder}" for folder in folders))
    ).splitlines():
        words = line.split()
        if words[0] == "constant":
            found.constants[words[1]] = Fraction(float.fromhex(words[2]))
        elif words[0] == "function":
            function = found.functions.setdefault(words[1], Function(words[1]))
        elif words[0] == "output":
            function.outputs[words[1]] = function.operand(words[2])
        elif words[0] == "bits":
            function.looked_at.append(function.first[int(words[1][1:])])
        else:
            assert words[0] == f"n{len(function.nodes)}", line
            function.add(node(words[2], words[3:], function))
    return found


def node(operation: str, words: list[str], function: Function) -> Node:
    single = operation.endswith("_float")
    if operation == "to_float":
        return Node("round", (function.operand(words[0]),), single=True)
    operation = operation.removesuffix("_float")
    if operation == "input":
        return Node("input", name=words[0], single=single)
    return Node(operation, tuple(map(function.operand, words)), single=single)
