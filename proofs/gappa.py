"""Bounds of rounding errors, checked by Gappa.

A script holds the operations of a traced function as they are, each with its rounding; the ranges of the inputs; and the
claim. What Gappa is told beside is algebra, which it checks itself: the identity of errors.py, and for each operation in
which errors cancel the same for its result. Operations that errors.py knows to be exact by a lemma are written without
a rounding (a product's residual as a multiple of 2^-1074), and an exact result by granularity is left to Gappa.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from fractions import Fraction

from proofs.errors import LEAST_SUBNORMAL, Error, RoundingErrors, is_numbered
from proofs.interval import Monomial, Polynomial, rounded_up
from proofs.step import Unproved
from proofs.trace import Node, Operand

HEADER = f"""\
@double = float<ieee_64, ne>;
@single = float<ieee_32, ne>;
@residual = fixed<{LEAST_SUBNORMAL}, ne>;
"""
BY_LEMMA = ("the residual of a product", "the residual of a sum", "the residual of a sum of numbers in order")


def check(script: str) -> str:
    """What Gappa prints of a script that it proves; Unproved where it does not."""
    done = subprocess.run(["gappa"], input=script, capture_output=True, text=True)
    if done.returncode != 0:
        told = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Unproved(f"Gappa: {told[0] if told else 'nothing proved'}")
    return done.stdout + done.stderr


def proved_relative(errors: RoundingErrors, result: int) -> Fraction:
    """How far a number may be, relatively, from what it would be without any rounding, as Gappa finds and proves it."""
    writer = _Writer(errors, all_ideal=True)
    lines = [HEADER, *writer.definitions()]
    lines.append(f"{{ {writer.hypotheses()} -> n{result} -/ N{result} in ? }}")
    told = check("\n".join(lines) + "\n")
    found = re.search(r"in \[(-?\d+)b?(-?\d+)?(?: \{.*?\})?, (-?\d+)b?(-?\d+)?[\] ]", told)
    if not found:
        raise Unproved(f"Gappa: {told.strip()}")
    ends = [int(m) * Fraction(2) ** int(e or 0) for m, e in (found.group(1, 2), found.group(3, 4))]
    return max(map(abs, ends))


def script(errors: RoundingErrors, result: Polynomial, expression: str, ideal: Polynomial, claim: Fraction) -> str:
    """That `expression`, whose value is `result`, is within `claim` of a polynomial in the inputs."""
    writer = _Writer(errors)
    difference = errors.reduced(result - ideal)
    lines = [HEADER, *writer.definitions(), ""]
    lines.append(f"{{ {writer.hypotheses()} ->")
    lines.append(f"  |{expression} - ({writer.text(ideal)})| <= {number(claim)} }}")
    lines.append("")
    lines += writer.hints()
    lines.append(f"{expression} - ({writer.text(ideal)}) -> {writer.text(difference)};")
    return "\n".join(lines) + "\n"


def number(value: Fraction) -> str:
    """A number as Gappa reads it, exactly: an integer times a power of two, or a quotient."""
    power = value.denominator.bit_length() - 1
    if value.denominator == 1 << power:
        return f"{value.numerator}b{-power}" if power else str(value.numerator)
    return f"({value.numerator}/{value.denominator})"


class _Writer:
    def __init__(self, errors: RoundingErrors, all_ideal: bool = False):
        self.errors = errors
        self.nodes = errors.function.nodes[: len(errors.values)]
        self.ideal = {i for i in range(len(self.nodes)) if all_ideal or f"e{i}" in errors.plain}

    def operand(self, operand: Operand, ideal: bool = False) -> str:
        if isinstance(operand, Fraction):
            return f"({number(operand)})"
        if operand in self.errors.given:
            return f"({self.text(self.errors.values[operand])})"
        return f"{'N' if ideal and operand in self.ideal else 'n'}{operand}"

    def expression(self, node: Node, ideal: bool = False) -> str:
        """What an operation rounds; or what it would, had none before it rounded."""
        a, *rest = (self.operand(operand, ideal) for operand in node.operands)
        if node.operation == "round":
            return a
        if node.operation == "neg":
            return f"0 - {a}"
        if node.operation == "fma":
            return f"{a} * {rest[0]} + {rest[1]}"
        return f"{a} {dict(add='+', sub='-', mul='*', div='/')[node.operation]} {rest[0]}"

    def definitions(self) -> list[str]:
        lines = [
            f"{name} = {'single' if single else 'double'}({name}_);"
            for name, single in self._input_names()
        ]
        for i, node in enumerate(self.nodes):
            if i in self.errors.given:
                continue
            expression = self.expression(node)
            reason = self.errors.exact.get(i, "")
            if node.operation == "neg" or reason in BY_LEMMA[1:]:
                lines.append(f"n{i} = {expression};")
            elif reason == BY_LEMMA[0]:
                lines.append(f"n{i} = residual({expression});")
            else:
                lines.append(f"n{i} = {'single' if node.single else 'double'}({expression});")
            if i in self.ideal:
                lines.append(f"N{i} = {self.expression(node, ideal=True)};")
        return lines

    def _input_names(self) -> list[tuple[str, bool]]:
        """The symbols that stand for inputs, and whether they are floats."""
        symbols = self.errors.symbols
        return [(name, self.nodes[i].single) for i, name in self.errors.given.items() if name in symbols]

    def hypotheses(self) -> str:
        found = []
        for name, range_ in self.errors.symbols.items():
            if is_numbered(name, "degqr"):
                continue
            found.append(f"{name} in [{number(-rounded_up(-range_.least, 60))}, {number(rounded_up(range_.greatest, 60))}]")
        for i, name in self.errors.given.items():
            if name in self.errors.symbols and self.errors.granularities[i] is not None:
                found.append(f"@FIX({name}, {self.errors.granularities[i]})")
        return " /\\ ".join(found)

    def hints(self) -> list[str]:
        """For each operation whose range is known better by its polynomial than by its operands, that."""
        lines = []
        for i, node in enumerate(self.nodes):
            if i in self.errors.given or node.operation == "neg":
                continue
            if node.operation == "div":
                a, b = map(self.operand, node.operands)
                lines.append(f"n{i} * {b} - {a} -> (n{i} - {a} / {b}) * {b} {{ {b} <> 0 }};")
                continue
            value, naive, _ = self.errors.expression(node)
            value = self.errors.reduced(value)
            better = value.range(self.errors.symbols)
            if better.greatest - better.least < naive.greatest - naive.least:
                lines.append(f"{self.expression(node)} -> {self.text(value)};")
        return lines

    def text(self, polynomial: Polynomial) -> str:
        return " + ".join(self._term(m, c) for m, c in polynomial.terms.items()) or "0"

    def _term(self, monomial: Monomial, coefficient: Fraction) -> str:
        factors = [] if coefficient == 1 and monomial else [f"({number(coefficient)})"]
        for symbol, power in monomial:
            factors += [self._symbol(symbol)] * power
        return " * ".join(factors)

    def _symbol(self, symbol: str) -> str:
        errors = self.errors
        if symbol in errors.errors:
            error: Error = errors.errors[symbol]
            return f"(n{error.node} - ({self.expression(self.nodes[error.node])}))"
        if symbol in errors.gathered:
            return f"({self.text(errors.gathered[symbol])})"
        if symbol in errors.plain:
            return f"(n{symbol[1:]} - N{symbol[1:]})"
        if is_numbered(symbol, "q"):
            return f"n{symbol[1:]}"
        if is_numbered(symbol, "r"):
            a, b = map(self.operand, self.nodes[int(symbol[1:])].operands)
            return f"(n{symbol[1:]} * {b} - {a})"
        return symbol
