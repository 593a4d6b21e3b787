"""The error of the double-double phase (core/numerics/pow_dd.h), with and without fused operations.

Theorem. Let x be a positive finite double, y = y_high + y_low an exponent of the kernels, t = y log2 x, |t| <= 1080.
The value of exp2_dd(log2_dd(x, y_high, y_low)) times 2^k is within double_double_error.at(t) 2^k of x^y, with
2^-90 2^k to spare for the roundings of the rounding test.

    logarithms  see proofs/logarithm_tables.py
    powers      each entry of the table against 2^(i/16)
    log2 x      whole + whole_low + f P(f): for each part next to 1; in part 0, where log2 x reaches zero, for each
                binade of f; elsewhere for each binade of whole
    t           y times that
    2^t         s = t.high - k - i/16 is exact; for each i, 2^(i/16) (1 + s Q(s)) (1 + t.low ln 2)
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from proofs.bounds import LN2, demand, together
from proofs.compiled import output, program
from proofs.errors import Input, RoundingErrors
from proofs.fast import ULP, last_operand_of_two, node
from proofs.interval import Interval, Polynomial, log2_text
from proofs.logarithm_tables import Case, LogarithmTables
from proofs.phase import (
    FOR_THE_TEST,
    GREATEST_LOW,
    GREATEST_T,
    both_signs,
    check_claims,
    factor_of_low,
    symbol,
)
from proofs.sollya import greatest_error, relative_error
from proofs.step import Step, each, once
from proofs.trace import Constant, Operand

SIXTEENTHS = 16
GREATEST_S = Fraction(1, 32)
GREATEST_T_LOW = Fraction(1, 1 << 40)
GREATEST_VALUE = Fraction(19571441060, 10**10)  # slightly more than 2^(31/32)


def steps(core: Path) -> list[Step]:
    fused, not_fused = DoubleDouble(core, "avx2"), DoubleDouble(core, "scalar")
    return [
        Step("x = m 2^e in parts of a binade", lambda: output(program("splits.cpp", core), "tables").strip()),
        Step("the table of logarithms", lambda: log2_text(fused.logarithms())),
        Step("the table of powers", lambda: log2_text(fused.powers())),
        *steps_of(fused, "fused"),
        *steps_of(not_fused, "not fused"),
    ]


def steps_of(phase: DoubleDouble, name: str) -> list[Step]:
    return [
        Step(f"f = m r - 1 and e - log2 r are exact, {name}", phase.range_of_f),
        Step(f"log2 x, {name}", lambda: log2_text(phase.log2()[0]), quick=False),
        Step(f"t = y log2 x, {name}", lambda: log2_text(phase.t()[0]), quick=False),
        Step(f"2^t, {name}", phase.claim_of_power, quick=name == "fused"),
        Step(f"double_double_error, {name}", phase.claims, quick=False),
    ]


class DoubleDouble(LogarithmTables):
    """The phase, compiled for an instruction set."""

    begin_name = "begin_dd_logarithm"
    wholes = ("whole", "whole_low")
    greatest_error_of_entries = Fraction(1, 1 << 96)

    @once
    def powers(self) -> Fraction:
        """Return the relative error of the table of 2^(i/16)."""
        powers = [self.power(i) for i in range(SIXTEENTHS)]
        worst = max(greatest_error("2^x", Fraction(i, 16), p * (1 + c)) for i, (p, c) in enumerate(powers))
        demand(worst <= self.greatest_error_of_entries, f"an entry is {log2_text(worst)} off")
        return worst

    def power(self, i: int) -> tuple[Fraction, Fraction]:
        outputs = self.function(f"exp2_dd.{i}").outputs
        values = [
            operand.value
            for operand in (outputs["power"], outputs["correction"])
            if isinstance(operand, Constant)
        ]
        demand(len(values) == 2, f"power {i} is not from a table")
        return values[0], values[1]

    @once
    def log2(self) -> tuple[Fraction, Fraction]:
        """Return the relative error of log2 x, and the maximum ratio of its low to its high part."""
        errors, ratios = zip(*each(self.log2_of, self.cases()), strict=True)
        return max(errors), max(ratios)

    def log2_of(self, case: Case) -> tuple[Fraction, Fraction]:
        return self.logarithm_of("log2_sum", "log2(1+x)", case, self.logarithms())

    @once
    def t(self) -> tuple[Fraction, Fraction]:
        of_log2, ratio = self.log2()
        of_product, t_ratio = self.times("times", ratio)
        demand(t_ratio * GREATEST_T <= GREATEST_T_LOW, "t.low is too large")
        demand(self.claim("greatest_t_low") >= GREATEST_T_LOW, "t.low may exceed greatest_t_low")
        return together(of_log2, of_product), t_ratio

    @once
    def exp2(self) -> Fraction:
        """Return the absolute error of the value of 2^(t - k)."""
        return max(each(self.exp2_of, range(SIXTEENTHS)))

    def exp2_of(self, i: int) -> Fraction:
        function = self.function(f"exp2_dd.{i}")
        high, low = node(function.outputs["high"]), node(function.outputs["low"])
        s = last_operand_of_two(function, function.looked_at[0])
        if i == 0:  # the same operations for each
            for t in both_signs(GREATEST_S, Fraction(GREATEST_T)):
                reduction = RoundingErrors(function, {"t": Input(t), "t_low": Input.constant(0)}, until=s)
                demand(s in reduction.exact, "t - k - i/16 is not exact")
                demand(reduction.values[s].range(reduction.symbols).magnitude <= GREATEST_S, "|s| > 1/32")
        inputs = {"t": Input(Interval.within(GREATEST_T)), "t_low": Input(Interval.within(GREATEST_T_LOW))}
        cuts: dict[Operand, tuple[str, Input]] = {s: ("s", Input(Interval.within(GREATEST_S)))}
        errors = RoundingErrors(function, inputs, cuts=cuts, until=max(high, low))
        value, _, greatest_low, _ = self.pair(errors)
        demand(greatest_low <= GREATEST_LOW, "the power's low part is too large")
        power, correction = self.power(i)
        entry = power * (1 + correction)
        ln2 = factor_of_low(function, low)
        series = Polynomial({m: c / entry for m, c in value.only("s").terms.items()})
        demand(abs(series.terms[()] - 1) <= ULP * ULP, "1 + s Q(s) does not begin with 1")
        factor = Polynomial.constant(entry) + symbol("t_low") * Polynomial.constant(power * ln2)
        bound = self.bound(errors, series * factor)
        of_series = relative_error(series, "s", "2^x", Interval.within(GREATEST_S))
        of_ln2 = max(abs(ln2 - end) for end in LN2) + abs(correction)
        of_low = GREATEST_T_LOW * of_ln2 + (GREATEST_T_LOW * LN2[1]) ** 2
        greatest_value = power * (1 + Fraction(1, 40))  # 2^s < 1 + 1/40
        return bound * (1 + ULP) + greatest_value * together(of_series, of_low, self.powers())

    def claim_of_power(self) -> str:
        proved, claimed = self.exp2() + FOR_THE_TEST, self.claim("double_double_error.fixed")
        demand(proved <= claimed, f"the error is {log2_text(proved)}, and {log2_text(claimed)} is claimed")
        return f"{log2_text(proved)}, claimed {log2_text(claimed)}"

    def claims(self) -> str:
        fixed, of_t = self.claim("double_double_error.fixed"), self.claim("double_double_error.of_t")
        return check_claims(GREATEST_VALUE, self.exp2() / GREATEST_VALUE, self.t()[0], fixed, of_t)
