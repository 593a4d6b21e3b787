"""Bounds of rounding errors, checked by Gappa.

A script contains the operations of a traced function, each with its rounding, the ranges of the inputs, and the claim.
Its hints are algebra, which Gappa checks itself: the identity of errors.py, and the same for the result of each
operation in which errors cancel. Exact operations are written without a rounding: by a lemma (a product's residual as a
multiple of 2^-1074), or by granularity, which Gappa must prove too.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from fractions import Fraction

from proofs import coq
from proofs.errors import LEAST_SUBNORMAL, Error, RoundingErrors, is_numbered
from proofs.interval import Monomial, Polynomial, rounded_up
from proofs.step import Unproved, run_program
from proofs.trace import Constant, Node, Operand

# {0}: the rounding mode, to nearest unless a phase is to be right in each of ROUNDINGS.
HEADER = f"""\
@double = float<ieee_64, {{0}}>;
@single = float<ieee_32, {{0}}>;
@residual = fixed<{LEAST_SUBNORMAL}, {{0}}>;
"""
ROUNDINGS = ("ne", "dn", "up", "zr")
SECONDS = 60
by_coq = False  # whether Coq checks each proof, too
BY_LEMMA = ("the residual of a product", "the residual of a sum", "the residual of a sum of numbers in order")


def check(script: str) -> str:
    """Run Gappa on a script and return its output. Raise Unproved if Gappa does not prove it."""
    done = run_program(["gappa"], stdin=script, seconds=SECONDS)
    if done.returncode == -signal.SIGXCPU:
        raise Unproved(f"Gappa: nothing proved in {SECONDS} seconds")
    told = done.stdout + done.stderr
    # Gappa uses an identity even if it cannot check it.
    if done.returncode != 0 or "not trivially equal" in told:
        lines = [line for line in told.splitlines() if "equal" in line or "rror" in line] or told.splitlines()
        raise Unproved(f"Gappa: {lines[0] if lines else 'nothing proved'}")
    if by_coq:
        coq.check(script)
    return told


def proved_relative(errors: RoundingErrors, result: int, rounding: str = "ne") -> Fraction:
    """Return a bound, found and proved by Gappa, of a number's error relative to its value without any rounding."""
    writer = _Writer(errors, [result], all_ideal=True)
    lines = [HEADER.format(rounding), *writer.definitions()]
    lines.append(f"{{ {writer.hypotheses()} -> n{result} -/ N{result} in ? }}")
    told = check("\n".join(lines) + "\n")
    found = re.search(r"in \[(-?\d+)b?(-?\d+)?(?: \{.*?\})?, (-?\d+)b?(-?\d+)?[\] ]", told)
    if not found:
        raise Unproved(f"Gappa: {told.strip()}")
    ends = [int(m) * Fraction(2) ** int(e or 0) for m, e in (found.group(1, 2), found.group(3, 4))]
    return max(map(abs, ends))


def script(
    errors: RoundingErrors,
    result: Polynomial,
    expression: str,
    ideal: Polynomial,
    claim: Fraction,
    rounding: str = "ne",
) -> str:
    """Return a script that claims: `expression`, whose value is `result`, is within `claim` of a polynomial."""
    writer = _Writer(errors, [int(number) for number in re.findall(r"\bn(\d+)", expression)])
    difference = errors.reduced(result - ideal)
    lines = [HEADER.format(rounding), *writer.definitions(), ""]
    goals = [f"|{expression} - ({writer.text(ideal)})| <= {number(claim)}", *writer.exact_goals()]
    lines.append(f"{{ {writer.hypotheses()} ->")
    lines.append("  " + " /\\ ".join(goals) + " }")
    lines.append("")
    lines += writer.hints()
    lines.append(f"{expression} - ({writer.text(ideal)}) -> {writer.text(difference)};")
    return "\n".join(lines) + "\n"


def number(value: Fraction) -> str:
    """Return a number in Gappa's syntax, exactly: an integer times a power of two, or a quotient."""
    power = value.denominator.bit_length() - 1
    if value.denominator == 1 << power:
        return f"{value.numerator}b{-power}" if power else str(value.numerator)
    return f"({value.numerator}/{value.denominator})"


class _Writer:
    def __init__(self, errors: RoundingErrors, results: Sequence[int], all_ideal: bool = False):
        self.errors = errors
        self.nodes = errors.function.nodes[: len(errors.values)]
        self.operations = self._needed(results)
        self.ideal = {i for i in range(len(self.nodes)) if all_ideal or f"e{i}" in errors.plain}

    def _needed(self, results: Sequence[int]) -> list[int]:
        """Return the operations that lead to the results, except those that a lemma replaces."""
        needed: set[int] = set()
        left = list(results)
        while left:
            i = left.pop()
            if i not in needed and i not in self.errors.given:
                needed.add(i)
                operands = self.errors.residuals.get(i, self.nodes[i].operands)
                left += [operand for operand in operands if isinstance(operand, int)]
        return sorted(needed)

    def operand(self, operand: Operand, ideal: bool = False) -> str:
        if isinstance(operand, Constant):
            return f"({number(operand.value)})"
        if operand in self.errors.given:
            return f"({self.text(self.errors.values[operand])})"
        return f"{'N' if ideal and operand in self.ideal else 'n'}{operand}"

    def expression_of(self, i: int) -> str:
        """Return the expression that an operation rounds, or its exact result by a lemma."""
        if i not in self.errors.residuals:
            return self.expression(self.nodes[i])
        a, b, result = self.errors.residuals[i]
        sign = "*" if self.errors.exact[i] == BY_LEMMA[0] else "+"
        return f"{self.operand(a)} {sign} {self.operand(b)} - {self.operand(result)}"

    def expression(self, node: Node, ideal: bool = False) -> str:
        """Return the expression that an operation rounds; if ideal, as if no operation before it rounded."""
        a, *rest = (self.operand(operand, ideal) for operand in node.operands)
        if node.operation == "round":
            return a
        if node.operation == "neg":
            return f"0 - {a}"
        if node.operation == "fma":
            return f"{a} * {rest[0]} + {rest[1]}"
        sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[node.operation]
        if node.operation in ("add", "sub") and rest[0] == "(0)":  # Gappa does not know granularities of 0
            return a
        if node.operation in ("add", "sub") and a == "(0)":
            return rest[0] if node.operation == "add" else f"- {rest[0]}"
        return f"{a} {sign} {rest[0]}"

    def definitions(self) -> list[str]:
        lines = [
            f"{name} = {'single' if single else 'double'}({name}_);" for name, single in self._input_names()
        ]
        for i in self.operations:
            node = self.nodes[i]
            expression = self.expression_of(i)
            reason = self.errors.exact.get(i, "")
            if node.operation == "neg" or (reason and f"d{i}" not in self.errors.errors):
                lines.append(f"n{i} = {expression};")
            elif reason:
                lines.append(f"n{i} = residual({expression});")
            else:
                lines.append(f"n{i} = {'single' if node.single else 'double'}({expression});")
            if i in self.ideal:
                lines.append(f"N{i} = {self.expression(node, ideal=True)};")
        return lines

    def exact_goals(self) -> list[str]:
        """Return the claims that operations are exact which errors.py treats as exact by granularity."""
        found = []
        for i, reason in self.errors.exact.items():
            if reason == "granularity" and i in self.operations:
                rounding = "single" if self.nodes[i].single else "double"
                found.append(f"{rounding}(n{i}) - n{i} in [0, 0]")
        return found

    def _input_names(self) -> list[tuple[str, bool]]:
        """Return the symbols of inputs, and whether they are floats."""
        symbols = self.errors.symbols
        return [(name, self.nodes[i].single) for i, name in self.errors.given.items() if name in symbols]

    def hypotheses(self) -> str:
        found = []
        for name, range_ in self.errors.symbols.items():
            if is_numbered(name, "degqr"):
                continue
            found.append(
                f"{name} in [{number(-rounded_up(-range_.least, 60))}, {number(rounded_up(range_.greatest, 60))}]"
            )
        granularities = {name: other.granularity for name, other in self.errors.others.items()}
        granularities |= {name: self.errors.granularities[i] for i, name in self.errors.given.items()}
        for name, granularity in granularities.items():
            if name in self.errors.symbols and granularity is not None:
                found.append(f"@FIX({name}, {granularity})")
        return " /\\ ".join(found)

    def hints(self) -> list[str]:
        """Return the polynomial of each operation for which it gives a better range than the operands do."""
        lines = []
        for i in self.operations:
            node = self.nodes[i]
            if node.operation == "neg":
                continue
            if node.operation == "div":
                a, b = map(self.operand, node.operands)
                lines.append(f"n{i} * {b} - {a} -> (n{i} - {a} / {b}) * {b} {{ {b} <> 0 }};")
                continue
            of_residual = i in self.errors.residuals
            value, naive, _ = (
                self.errors.expression_of_residual(i) if of_residual else self.errors.expression(node)
            )
            value = self.errors.reduced(value)
            better = value.range(self.errors.symbols)
            if better.width < naive.width * Fraction(7, 8):
                lines.append(f"{self.expression_of(i)} -> {self.text(value)};")
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
            return f"(n{error.node} - ({self.expression_of(error.node)}))"
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
