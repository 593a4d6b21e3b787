"""The error of the triple-double phase (core/numerics/pow_td.h).

Theorem. Let x be a positive finite double, y = y_high + y_low an exponent of the kernels, t = y log2 x,
2^-54 <= |t| <= greatest_td_t. The value of end_power times 2^k is within error_of(begin_power(t), t) 2^k of x^y, with
room for the roundings of the rounding test.

Lemma. If |t| < 2^-54, then s = t.a and |more.high| = |fl(s q)| < 2^-54: the value's first part is 1, and the sum of the
others is more.high within 2^-50 of it. With the claimed error, 2^-100 |s|, both ends of the interval are on x^y's side
of 1, within 2^-53 of it, which is sufficient for a rounding test.

    f, whole    see proofs/logarithm_tables.py, with a third part of log2 r
    P(f)        its pairs against the polynomial, and c0 + f times that
    log2 x      whole + f P(f): for the same cases
    t           y times that; numbers of one binade represent all
    s, s_low    t.a - k - i/16 is exact, and so is the pair of it and t.b, for each binade of t; s_low is rounded
    2^t         2^(i/16) (1 + correction) (1 + s Q(s)) (1 + s_low ln 2): for each i; and if 2^(i/16) = 1, relative to
                s, for ranges of s
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from proofs.bounds import LN2, demand, proved_bound, together
from proofs.double_double import GREATEST_S, GREATEST_VALUE, SIXTEENTHS
from proofs.errors import Input, RoundingErrors
from proofs.fast import ULP, last_operand_of_two, node
from proofs.interval import Interval, Polynomial, log2_text
from proofs.logarithm_tables import FAR_FROM_ONE, Case, LogarithmTables, least_ratio
from proofs.phase import both_signs, symbol
from proofs.sollya import greatest_error, relative_error
from proofs.step import Step, each, once
from proofs.trace import Constant

# Errors relative to s are proved from |s| = 2^-54 on if s = t, otherwise from 2^-30 on: a smaller s does not matter.
LEAST_OF_T, LEAST_OF_S = -54, -30
TINY = Fraction(1, 1 << 130)
# A bound of the rounding test's errors for a subnormal result, where |t| >= 1021. For others they are below TINY.
TEST_OF_TRIPLES, LEAST_SUBNORMAL_T = Fraction(1, 1 << 104), 1021
# The maximum ratio of t.c to t.a.
LAST = Fraction(1, 1 << 100)
NEXT_TO_ONE = Interval.within(Fraction(1, 128))


def steps(core: Path) -> list[Step]:
    return [
        step
        for name, instruction_set in (("fused", "avx2"), ("not fused", "scalar"))
        for step in steps_of(Triples(core, instruction_set), name)
    ]


def steps_of(phase: Triples, name: str) -> list[Step]:
    return [
        Step(f"the tables, {name}", lambda: log2_text(max(phase.logarithms(), phase.powers()))),
        Step(f"log2 x, {name}", lambda: log2_text(phase.log2()[0]), quick=False),
        Step(f"t = y log2 x, {name}", lambda: log2_text(phase.t()[0]), quick=False),
        Step(f"s of t, {name}", lambda: log2_text(phase.reduction())),
        Step(f"2^t, {name}", lambda: log2_text(phase.exp2()), quick=False),
        Step(f"triple_double_error, {name}", phase.claims, quick=False),
    ]


class Triples(LogarithmTables):
    """The phase, compiled for an instruction set."""

    begin_name = "begin_logarithm"
    wholes = ("a", "b", "c")
    greatest_error_of_entries = Fraction(1, 1 << 150)

    def sum(self, errors: RoundingErrors) -> tuple[Polynomial, str, list[Interval]]:
        """Return the sum of a function's three results, its expression for Gappa, and the ranges of the results."""
        parts = [errors.function.outputs[name] for name in ("a", "b", "c")]
        value = errors.value(parts[0]) + errors.value(parts[1]) + errors.value(parts[2])
        return (
            value,
            "(" + " + ".join(f"n{part}" for part in parts) + ")",
            [errors.range(part) for part in parts],
        )

    def bound_of_sum(self, errors: RoundingErrors, ideal: Polynomial) -> Fraction:
        value, expression, _ = self.sum(errors)
        return proved_bound(errors, value, expression, ideal)

    # The logarithm.

    @once
    def log2(self) -> tuple[Fraction, list[Fraction]]:
        """Return the relative error of log2 x, and the maximum ratios of its other parts to the first."""
        errors, ratios = zip(*each(self.log2_of, self.cases()), strict=True)
        return max(errors), [max(ratio) for ratio in zip(*ratios, strict=True)]

    @once
    def slope(self, f: Interval) -> tuple[Fraction, Polynomial, list[Interval]]:
        """Return the distance of P(f) from a polynomial, for a range of f, that polynomial, and the parts of P(f)."""
        series = RoundingErrors(self.function("log2_td_series"), {"f": Input(f)})
        inner, expression, low, high = self.pair(series)
        polynomial = inner.only("f")
        of_inner = proved_bound(series, inner, expression, polynomial)
        given = {"f": Input(f), "inner": Input(high), "inner_low": Input(Interval.within(low))}
        errors = RoundingErrors(self.function("log2_td_slope"), given)
        value, _, parts = self.sum(errors)
        first = Polynomial.constant(value.terms[()])
        bound = self.bound_of_sum(errors, first + symbol("f") * (symbol("inner") + symbol("inner_low")))
        return bound + f.magnitude * of_inner, first + symbol("f") * polynomial, parts

    def log2_of(self, case: Case) -> tuple[Fraction, list[Fraction]]:
        f, whole = case
        is_next_to_one = whole[0] == Input.constant(0) and f.range.magnitude <= NEXT_TO_ONE.magnitude
        is_far = whole[0].range.mignitude >= FAR_FROM_ONE
        of_slope, polynomial, slopes = self.slope(
            NEXT_TO_ONE if is_next_to_one else self.all_f() if is_far else f.range
        )
        given = {"f": f}
        for name, parts in (("slope", [Input(part) for part in slopes]), ("whole", whole)):
            given |= {name: parts[0], f"{name}_low": parts[1], f"{name}_last": parts[2]}
        errors = RoundingErrors(self.function("log2_td_sum"), given)
        slope = symbol("slope") + symbol("slope_low") + symbol("slope_last")
        names = ("whole", "whole_low", "whole_last")
        sum_ = sum_polynomials(
            symbol(name) if part.value is None else part.value
            for name, part in zip(names, whole, strict=True)
        )
        bound = self.bound_of_sum(errors, sum_ + symbol("f") * slope) + f.range.magnitude * of_slope
        series = symbol("f") * polynomial
        of_series = relative_error(series, "f", "log2(1+x)", self.all_f())
        parts_of_log2 = self.sum(errors)[2]
        ratios = [part.magnitude / parts_of_log2[0].mignitude for part in parts_of_log2[1:]]
        if whole[0] == Input.constant(0):
            return together(of_series, bound / (f.range.mignitude * least_ratio(series, f.range))), ratios
        size = series.range({"f": f.range}).magnitude * (1 + ULP)
        least = whole[0].range.mignitude - whole[1].range.magnitude - size
        demand(least > 0, "e - log2 r is not greater than f P(f)")
        return (bound + self.logarithms() + of_series * size * (1 + ULP)) / least, ratios

    # The product.

    @once
    def t(self) -> tuple[Fraction, list[Fraction]]:
        """Return the relative error of t, and the maximum ratios of its other parts to the first."""
        of_log2, ratios = self.log2()
        errors, of_parts = zip(
            *(self.product(name, ratios) for name in ("times_td", "times_td_by_double")), strict=True
        )
        ratios = [max(ratio) for ratio in zip(*of_parts, strict=True)]
        demand(ratios[1] <= LAST, "t.c is too large")
        return together(of_log2, max(errors)), ratios

    def product(self, name: str, ratios: list[Fraction]) -> tuple[Fraction, list[Fraction]]:
        """Return the same for y times a logarithm in [1, 2]. Other binades differ only by signs and powers of two."""
        one_to_two = Interval.of(1, 2)
        errors = self.product_of(name, ratios, one_to_two, one_to_two)
        y = symbol("y") + symbol("y_low") if "y_low" in errors.symbols else symbol("y")
        bound = self.bound_of_sum(errors, y * (symbol("log2") + symbol("log2_low") + symbol("log2_last")))
        eighths = [Interval.of(1 + Fraction(i, 8), 1 + Fraction(i + 1, 8)) for i in range(8)]
        found = []
        for of_y in eighths:
            for of_log2 in eighths:
                first, *rest = self.sum(self.product_of(name, ratios, of_y, of_log2))[2]
                found.append([part.magnitude / first.mignitude for part in rest])
        return bound / (1 - 4 * ratios[0]), [max(ratio) for ratio in zip(*found, strict=True)]

    def product_of(self, name: str, ratios: list[Fraction], y: Interval, log2: Interval) -> RoundingErrors:
        given = {
            "log2": Input(log2, -52),
            "log2_low": Input(Interval.within(log2.magnitude * ratios[0])),
            "log2_last": Input(Interval.within(log2.magnitude * ratios[1])),
            "y": Input(y, -52),
            "y_low": Input(Interval.within(y.magnitude * ULP)),
        }
        return RoundingErrors(self.function(name), given)

    # The power.

    @once
    def reduction(self) -> Fraction:
        """Return the error of s + s_low as t - k - i/16, for |t| >= 1/32. For smaller |t|, s + s_low is t.a + t.b."""
        greatest, high = Fraction(0), self.claim("greatest_td_t")
        while high > GREATEST_S:
            low = max(high / 2, GREATEST_S) if high != self.claim("greatest_td_t") else Fraction(1024)
            for t in both_signs(low, high):
                greatest = max(greatest, self.reduction_of(t))
            high = low
        return greatest

    def reduction_of(self, t: Interval) -> Fraction:
        """Return the same for a range of t within a binade."""
        function = self.function("begin_power.0")
        given = {
            "t": Input(t),
            "t_low": Input(self.low_of_t(t)),
            "t_last": Input(Interval.within(t.magnitude * LAST)),
        }
        s, s_low = node(function.outputs["s"]), node(function.outputs["s_low"])
        errors = RoundingErrors(function, given, until=max(s, s_low))
        difference = last_operand_of_two(function, function.looked_at[0])
        demand(difference in errors.exact, "t - k - i/16 is not exact")
        value = errors.value(s) + errors.value(s_low)
        demand(errors.range(difference).magnitude <= GREATEST_S, "|s| > 1/32")
        ideal = errors.value(difference) + symbol("t_low") + symbol("t_last")
        found = errors.bound(value - ideal)
        greatest_low = GREATEST_S * ULP * (1 + ULP) + t.magnitude * LAST
        demand(found <= 2 * ULP * greatest_low, "s + s_low has more errors than the rounding of s_low")
        return found

    def low_of_t(self, t: Interval) -> Interval:
        """Return the range of t.b: at most half a place of t.a, since a triple is normalized (a lemma)."""
        greatest_power = Fraction(1)
        while greatest_power * 2 <= t.magnitude:
            greatest_power *= 2
        while greatest_power >= t.magnitude:
            greatest_power /= 2
        return Interval.within(greatest_power * ULP * (1 + 16 * ULP))

    @once
    def powers(self) -> Fraction:
        """Return the relative error of the table of 2^(i/16)."""
        powers = [self.power(i) for i in range(SIXTEENTHS)]
        worst = max(
            greatest_error("2^x", Fraction(i, 16), p * (1 + a + b)) for i, (p, a, b) in enumerate(powers)
        )
        demand(worst <= self.greatest_error_of_entries, f"an entry is {log2_text(worst)} off")
        return worst

    def power(self, i: int) -> tuple[Fraction, Fraction, Fraction]:
        """Return 2^(i/16) and its correction."""
        outputs = self.function(f"begin_power.{i}").outputs
        found = [outputs[name] for name in ("power", "high", "low")]
        values = [operand.value for operand in found if isinstance(operand, Constant)]
        demand(len(values) == 3, f"power {i} is not from a table")
        return values[0], values[1], values[2]

    @once
    def exp2(self) -> Fraction:
        """Return the absolute error of the value of 2^(t - k), for |s| >= 1/64 or 2^(i/16) > 1."""
        outer = both_signs(GREATEST_S / 2, GREATEST_S)
        whole, greatest_t = [Interval.within(GREATEST_S)], self.claim("greatest_td_t")
        cases = [(i, s, greatest_t) for i in range(SIXTEENTHS) for s in (whole if i else outer)]
        return max(each(self.exp2_of, cases))

    def near_one(self) -> str:
        """Prove the error relative to s, for 2^(i/16) = 1 and |s| < 1/64."""
        greatest_t = self.claim("greatest_td_t")
        where_s_is_t = [(0, s, s.magnitude) for s in ranges_of_s(LEAST_OF_T)]
        others = [(0, s, greatest_t) for s in ranges_of_s(LEAST_OF_S)]
        rest = self.exp2_of((0, Interval.within(Fraction(2) ** LEAST_OF_S), greatest_t))
        demand(rest <= TINY, f"the error is {log2_text(rest)} for a small s")
        worst = max(
            *(
                error / case[1].mignitude
                for error, case in zip(each(self.exp2_of, where_s_is_t), where_s_is_t, strict=True)
            ),
            *(
                (error - TINY) / case[1].mignitude
                for error, case in zip(each(self.exp2_of, others), others, strict=True)
            ),
        )
        claimed = 64 * self.claim("triple_double_error.fixed")
        demand(
            worst <= claimed,
            f"near 1 the error is {log2_text(worst)} |s|, and {log2_text(claimed)} |s| is claimed",
        )
        return f"{log2_text(worst)} |s|, claimed {log2_text(claimed)} |s|"

    @once
    def q(self, s: Interval) -> tuple[Fraction, Polynomial, Interval, Fraction]:
        """Return the distance of Q(s) from a polynomial, for a range of s, that polynomial, and the parts of Q(s)."""
        errors = RoundingErrors(self.function("exp2_td_series"), {"s": Input(s)})
        value, expression, low, high = self.pair(errors)
        polynomial = value.only("s")
        return proved_bound(errors, value, expression, polynomial), polynomial, high, low

    def exp2_of(self, case: tuple[int, Interval, Fraction]) -> Fraction:
        """Return the error for 2^(i/16), a range of s, and the maximum |t|."""
        i, s, greatest_t = case
        function = self.function(f"end_power.{i}")
        of_q, polynomial, q_high, q_low = self.q(s)
        greatest_low = s.magnitude * ULP * (1 + ULP) + greatest_t * LAST
        given = {
            "s": Input(s),
            "s_low": Input(Interval.within(greatest_low)),
            "q": Input(q_high),
            "q_low": Input(Interval.within(q_low)),
        }
        errors = RoundingErrors(function, given)
        power, *corrections = self.power(i)
        ln2 = self.factor_of_s_low(i)
        one = Polynomial.constant(1)
        ideal = (
            Polynomial.constant(power * (1 + sum(corrections, Fraction(0))))
            * (one + symbol("s") * (symbol("q") + symbol("q_low")))
            * (one + symbol("s_low") * Polynomial.constant(ln2))
        )
        bound = self.bound_of_sum(errors, ideal) + power * s.magnitude * of_q
        series = symbol("s") * polynomial
        of_series = relative_error(series, "s", "2^x-1", Interval.within(GREATEST_S))
        size = series.range({"s": s}).magnitude
        of_low = greatest_low * max(abs(ln2 - end) for end in LN2) + (greatest_low * LN2[1]) ** 2
        of_table = self.powers() if i else Fraction(0)
        # s_low is rounded.
        relative = together(of_low, of_table, greatest_low * ULP * LN2[1])
        return bound + power * (1 + size) * (relative + of_series * size)

    def factor_of_s_low(self, i: int) -> Fraction:
        """Return the constant by which s_low is multiplied."""
        nodes = self.function(f"end_power.{i}").nodes
        (product,) = (
            found
            for found in nodes
            if found.operation == "mul"
            and any(isinstance(o, int) and nodes[o].name == "s_low" for o in found.operands)
            and any(isinstance(o, Constant) and o.value != 2**27 + 1 for o in found.operands)
        )
        (constant,) = (operand for operand in product.operands if isinstance(operand, Constant))
        return constant.value

    def claims(self) -> str:
        fixed, of_t = self.claim("triple_double_error.fixed"), self.claim("triple_double_error.of_t")
        of_log2 = self.t()[0]
        demand(self.exp2() + TINY <= fixed * (1 - 4 * ULP), f"the error is {log2_text(self.exp2())}")
        exponent = of_log2 * self.claim("greatest_td_t") * LN2[1]
        of_this = GREATEST_VALUE * of_log2 * LN2[1] * (1 + exponent)
        for_the_test = TEST_OF_TRIPLES / LEAST_SUBNORMAL_T
        demand(
            of_this + TINY + for_the_test <= of_t * (1 - 4 * ULP), f"the error is {log2_text(of_this)} |t|"
        )
        near_one = self.near_one()
        return (
            f"{log2_text(self.exp2())} + |t| {log2_text(of_this)}, claimed {log2_text(fixed)} + |t| {log2_text(of_t)}; "
            f"near 1 {near_one}"
        )


def ranges_of_s(least_exponent: int) -> list[Interval]:
    """Return ranges of two binades each, from 2^least_exponent to 1/64, of both signs."""
    ends = range(-6, least_exponent - 2, -2)
    return [
        s
        for high, low in itertools.pairwise(ends)
        for s in both_signs(Fraction(2) ** low, Fraction(2) ** high)
    ]


def sum_polynomials(polynomials: Iterator[Polynomial]) -> Polynomial:
    total = Polynomial({})
    for polynomial in polynomials:
        total = total + polynomial
    return total
