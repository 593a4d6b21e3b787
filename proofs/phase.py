"""Steps shared by the proofs of the phases in pairs and triples of doubles."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from proofs.bounds import LN2, demand, proved_bound, together
from proofs.errors import Input, RoundingErrors
from proofs.fast import ULP
from proofs.interval import Interval, Polynomial, log2_text
from proofs.trace import Constant, Function, trace

GREATEST_T = 1080
FOR_THE_TEST = Fraction(1, 1 << 90)  # a bound of the rounding test's own roundings
GREATEST_LOW = Fraction(99, 100 << 37)  # a bound of the low part of a power


def symbol(name: str) -> Polynomial:
    return Polynomial.symbol(name)


def both_signs(least: Fraction, greatest: Fraction) -> list[Interval]:
    return [Interval(least, greatest), Interval(-greatest, -least)]


class Phase:
    """A phase, compiled for an instruction set."""

    def __init__(self, core: Path, instruction_set: str):
        self.core, self.instruction_set = core, instruction_set
        self.trace = trace("phases.cpp", core, instruction_set)

    def function(self, name: str) -> Function:
        return self.trace.functions[name]

    def claim(self, name: str) -> Fraction:
        return self.trace.constants[name]

    def pair(self, errors: RoundingErrors) -> tuple[Polynomial, str, Fraction, Interval]:
        """Return the sum of a function's results, its expression for Gappa, low's magnitude and high's range."""
        high, low = errors.function.outputs["high"], errors.function.outputs["low"]
        value = errors.value(high) + errors.value(low)
        return value, f"(n{high} + n{low})", errors.range(low).magnitude, errors.range(high)

    def bound(self, errors: RoundingErrors, ideal: Polynomial) -> Fraction:
        """Return a bound of the distance of the sum from a polynomial in the inputs."""
        value, expression, _, _ = self.pair(errors)
        return proved_bound(errors, value, expression, ideal)

    def times(self, name: str, ratio: Fraction) -> tuple[Fraction, Fraction]:
        """Return the relative error of y times a logarithm whose low part is up to `ratio` of the high one, and the
        ratio of t. y and the logarithm are in [1, 2]: other binades differ only by signs and powers of two."""
        one_to_two = Interval.of(1, 2)
        errors, y = self._times(name, ratio, one_to_two, one_to_two)
        ideal = (y + symbol("y_low")) * (symbol("log2") + symbol("log2_low"))
        bound = self.bound(errors, ideal)
        eighths = [Interval.of(1 + Fraction(i, 8), 1 + Fraction(i + 1, 8)) for i in range(8)]
        lows = []
        for of_y in eighths:
            for of_log2 in eighths:
                _, _, low, high = self.pair(self._times(name, ratio, of_y, of_log2)[0])
                lows.append(low / high.mignitude)
        return bound / (1 - 4 * ratio), max(lows)

    def _times(
        self, name: str, ratio: Fraction, y: Interval, log2: Interval
    ) -> tuple[RoundingErrors, Polynomial]:
        """Return the product for ranges of y and the logarithm, and y."""
        function = self.function(name)
        inputs = {
            "log2": Input(log2, -52),
            "log2_low": Input(Interval.within(log2.magnitude * ratio)),
            "y": Input(y, -52),
            "y_low": Input(Interval.within(y.magnitude * ULP)),
        }
        made = function.made()
        if made:  # y clamped, which changes nothing, since it is at most 2^64
            inputs["y"] = Input(y, -52, symbol(f"made{made[0]}"))
        errors = RoundingErrors(function, inputs, [Input(y, -52)])
        return errors, symbol(f"made{made[0]}" if made else "y")


def check_claims(
    greatest: Fraction, of_power: Fraction, of_t: Fraction, fixed: Fraction, times_t: Fraction
) -> str:
    """Prove that fixed + |t| times_t bounds the error of a value of at most `greatest`, for these relative errors."""

    def error(t: int) -> Fraction:
        exponent = of_t * t * LN2[1]
        return greatest * together(of_power, exponent * (1 + exponent))

    for t in (0, GREATEST_T):
        room = (fixed + t * times_t) * (1 - 4 * ULP) - FOR_THE_TEST
        demand(
            error(t) <= room,
            f"the error at |t| = {t} is {log2_text(error(t))}, and {log2_text(fixed + t * times_t)} is claimed",
        )
    proved = f"{log2_text(greatest * of_power)} + |t| {log2_text(greatest * of_t * LN2[1])}"
    return f"{proved}, claimed {log2_text(fixed)} + |t| {log2_text(times_t)}"


def factor_of_low(function: Function, low: int) -> Fraction:
    """Return the constant by which t.low is multiplied before a node."""
    found = {
        operand.value
        for n in function.nodes[: low + 1]
        for operand in n.operands
        if isinstance(operand, Constant)
        and n.operation in ("mul", "fma")
        and any(isinstance(o, int) and function.nodes[o].name == "t_low" for o in n.operands[:2])
        and operand in n.operands[:2]
    }
    demand(len(found) == 1, "2^t.low has another form")
    return found.pop()
