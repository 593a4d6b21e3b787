"""The tables of the double-double and triple-double phases (core/numerics/pow_dd.h, table_point): a significand is in
one of 32 parts, each with its r, about 1/m, and - log2 r.

    x = m 2^e   part j has m from 1 + (2 j - 1)/64 to 1 + (2 j + 1)/64, and part 0 from 1 - 1/128: programs/splits.cpp
                tests both ends of each
    tables      - log2 r, each entry against the function
    f           m r - 1, exact, for each part
    whole       e - log2 r: a multiple of 2^-42 and exact, except for its low parts
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

from proofs.bounds import demand, together
from proofs.errors import Input, RoundingErrors
from proofs.fast import ULP, node
from proofs.interval import Interval, Polynomial, log2_text
from proofs.phase import Phase, both_signs, symbol
from proofs.sollya import greatest_error, relative_error
from proofs.step import each, once
from proofs.trace import Constant, Function

PARTS = 32
WHOLE_GRANULARITY = -42
# From this |e - log2 r| on, one range of f is used for all parts.
FAR_FROM_ONE, GREATEST_WHOLE = Fraction(1, 4), Fraction(2048)
Case = tuple[Input, list[Input]]


def part(j: int, parts: int = PARTS) -> list[Input]:
    """Return the significands of part j. Below 1 the spacing is half."""
    low, high = 1 + Fraction(2 * j - 1, 2 * parts), 1 + Fraction(2 * j + 1, 2 * parts) - 2 * ULP
    if j:
        return [Input(Interval(low, high), -52)]
    return [
        Input(Interval(1 - Fraction(1, 4 * parts), 1 - ULP), -53),
        Input(Interval(Fraction(1), high), -52),
    ]


class PartsOfABinade(Phase):
    """A phase with f = m r - 1 for each part of a binade."""

    parts: int

    def fs(self, j: int) -> list[Input]:
        """Return f of part j."""
        raise NotImplementedError

    @once
    def all_f(self) -> Interval:
        """Return the range of f."""
        ranges = [f.range for j in range(self.parts) for f in self.fs(j)]
        return Interval(min(f.least for f in ranges), max(f.greatest for f in ranges))

    def logarithm_of(
        self, name: str, logarithm: str, case: Case, lost_of_whole: Fraction
    ) -> tuple[Fraction, Fraction]:
        """Return the error of whole + f P(f), relative to the logarithm, and the ratio of its low to its high part.

        `lost_of_whole` is the error of `whole`.
        """
        f, (whole, whole_low) = case
        given = {"f": f, "whole": whole, "whole_low": whole_low}
        errors = RoundingErrors(self.function(name), given)
        value, _, low, high = self.pair(errors)
        series = value.only("f") - Polynomial.constant(value.terms.get((), Fraction(0)))
        sum_ = sum_of(whole, "whole") + sum_of(whole_low, "whole_low")
        bound = self.bound(errors, series + sum_)
        of_series = relative_error(series, "f", logarithm, self.all_f())
        size = series.range({"f": f.range}).magnitude * (1 + ULP)
        if not whole.range.magnitude:
            least = f.range.mignitude * least_ratio(series, f.range)  # the logarithm is f P(f)
            return together(of_series, bound / least), low / high.mignitude
        least = whole.range.mignitude - whole_low.range.magnitude - size
        demand(least > 0, "whole is not greater than f P(f)")
        return (bound + lost_of_whole + of_series * size * (1 + ULP)) / least, low / high.mignitude

    def range_of_f(self) -> str:
        return f"from {float(self.all_f().least):.5f} to {float(self.all_f().greatest):.5f}"


class NaturalLogarithms(PartsOfABinade):
    """A phase with log x = e ln 2 - log r + log(1 + f), or with halves of these. The first two are in two parts."""

    whole_granularity: int
    far_from_one: Fraction  # from this |e ln 2 - log r| on, one range of f is used for all parts
    greatest_whole: Fraction
    greatest_low: Fraction  # of e ln 2 - log r

    def entry(self, j: int) -> tuple[Fraction, Fraction, Fraction]:
        """Return the table's r, and - log r in two parts."""
        raise NotImplementedError

    def ln2(self) -> tuple[Fraction, Fraction]:
        """Return ln 2, by which e is multiplied, in two parts."""
        raise NotImplementedError

    def log_of(self, case: Case) -> tuple[Fraction, Fraction]:
        """Return what `log` does, for a case."""
        raise NotImplementedError

    def cases(self) -> Iterator[Case]:
        """Yield the ranges of f and of the parts of e ln 2 - log r."""
        ln2, ln2_low = self.ln2()
        for j in range(self.parts):
            _, high, low = self.entry(j)
            for e in (0, -1):
                whole, whole_low = high + e * ln2, low + e * ln2_low
                for f in self.fs(j) if abs(whole) < self.far_from_one else ():
                    if whole:
                        exact = Input(
                            Interval(whole, whole), self.whole_granularity, Polynomial.constant(whole)
                        )
                        yield f, [exact, Input(Interval.within(abs(whole_low) * (1 + ULP)))]
                        continue
                    demand(whole_low == 0, "e ln 2 - log r is zero in its high part only")
                    zero = Input(Interval.of(0, 0), f.granularity, Polynomial.constant(0))
                    for some in parts_without_zero(f.range):
                        yield Input(some, f.granularity), [zero, zero]
        granularity = min(f.granularity or 0 for j in range(self.parts) for f in self.fs(j))
        for whole_range in binades(self.far_from_one, self.greatest_whole):
            lows = Input(Interval.within(self.greatest_low_of(whole_range)))
            yield Input(self.all_f(), granularity), [Input(whole_range, self.whole_granularity), lows]

    def greatest_low_of(self, whole: Interval) -> Fraction:
        """Return the maximum of the low part of e ln 2 - log r, for a range of its high part."""
        return self.greatest_low

    @once
    def log(self) -> tuple[Fraction, Fraction]:
        """Return the relative error of the logarithm, and the maximum ratio of its low to its high part."""
        errors, ratios = zip(*each(self.log_of, self.cases()), strict=True)
        return max(errors), max(ratios)

    @once
    def t(self) -> tuple[Fraction, Fraction]:
        """Return the same for y times the logarithm."""
        of_log, ratio = self.log()
        of_product, t_ratio = self.times("times", ratio)
        return together(of_log, of_product), t_ratio


class LogarithmTables(PartsOfABinade):
    """A phase with a logarithm by tables.

    `begin_name` is the function that starts it, traced for a number in each part. `wholes` are the names of the parts
    of e - log2 r among its outputs.
    """

    parts = PARTS
    begin_name: str
    wholes: tuple[str, ...]
    greatest_error_of_entries: Fraction

    def beginning(self, j: int) -> Function:
        return self.function(f"{self.begin_name}.{j}")

    @once
    def r(self, j: int) -> Fraction:
        """Return the table's r, with f = m r - 1."""
        errors, m = self.begin(j, part(j)[0])
        value = errors.value(self.outputs(j)[0])
        r = value.terms.get(((m, 1),), Fraction(0))
        demand(
            value == symbol(m) * Polynomial.constant(r) - Polynomial.constant(1),
            f"f is not m r - 1 in part {j}",
        )
        return r

    def minus_log2_r(self, j: int) -> tuple[Fraction, ...]:
        """Return the table's - log2 r, in parts."""
        function = self.beginning(j)
        whole = function.nodes[self.outputs(j)[1]]
        lows = (function.outputs[name] for name in self.wholes[1:])
        values = tuple(
            operand.value for operand in (whole.operands[1], *lows) if isinstance(operand, Constant)
        )
        is_sum = whole.operation == "add" and len(values) == len(self.wholes)
        demand(is_sum, f"e - log2 r has another form in part {j}")
        return values

    def outputs(self, j: int) -> tuple[int, int]:
        """Return the nodes of f and of e - log2 r."""
        outputs = self.beginning(j).outputs
        return node(outputs["f"]), node(outputs[self.wholes[0]])

    def begin(self, j: int, m: Input) -> tuple[RoundingErrors, str]:
        """Return the start of a logarithm for some of part j, and the name of m."""
        function = self.beginning(j)
        e, of_m = function.made()[:2]
        made = [Input(Interval.of(-1074, 1023), 0), m]
        assert e < of_m
        return RoundingErrors(function, {"x": m}, made, until=max(self.outputs(j))), f"made{of_m}"

    @once
    def logarithms(self) -> Fraction:
        """Return the error of the table of - log2 r."""
        sums = [(self.r(j), sum(self.minus_log2_r(j), Fraction(0))) for j in range(PARTS)]
        worst = max(greatest_error("-log2(x)", r, value) for r, value in sums)
        demand(worst <= self.greatest_error_of_entries, f"an entry is {log2_text(worst)} off")
        return worst

    @once
    def fs(self, j: int) -> list[Input]:
        """Return f of part j. It is exact, and so is e - log2 r."""
        found = []
        f, whole = self.outputs(j)
        for m in part(j):
            errors, m_name = self.begin(j, m)
            ideal = symbol(m_name) * Polynomial.constant(self.r(j)) - Polynomial.constant(1)
            demand(errors.value(f) == ideal, f"f is not m r - 1 in part {j}")
            is_exact = not any(
                symbol_ in errors.errors for monomial in errors.value(whole).terms for symbol_, _ in monomial
            )
            granularity = errors.granularity(whole)
            is_multiple = granularity is not None and granularity >= WHOLE_GRANULARITY
            demand(is_exact and is_multiple, f"e - log2 r is rounded in part {j}")
            found.append(Input(errors.range(f), errors.granularity(f)))
        return found

    def cases(self) -> Iterator[Case]:
        """Yield the ranges of f and of the parts of e - log2 r."""
        for f in self.fs(0):
            for some in parts_without_zero(f.range):
                yield Input(some, f.granularity), [Input.constant(0)] * len(self.minus_log2_r(0))
        for j in range(PARTS):
            high, *lows = self.minus_log2_r(j)
            for whole in (high, high - 1):
                for f in self.fs(j) if 0 < abs(whole) < FAR_FROM_ONE else ():
                    yield f, [Input.constant(part) for part in (whole, *lows)]
        parts = zip(*(self.minus_log2_r(j) for j in range(PARTS)), strict=True)
        _, *greatest = (max(map(abs, part)) for part in parts)
        for whole_range in binades(FAR_FROM_ONE, GREATEST_WHOLE):
            whole_input = Input(whole_range, WHOLE_GRANULARITY)
            yield Input(self.all_f()), [whole_input, *(Input(Interval.within(low)) for low in greatest)]


def binades(least: Fraction, greatest: Fraction) -> Iterator[Interval]:
    """Yield the binades from `least` to `greatest`, which are powers of two, of both signs."""
    while least < greatest:
        yield from both_signs(least, 2 * least)
        least *= 2


def parts_without_zero(range_: Interval) -> list[Interval]:
    """Divide a range from or to zero: the outer binade in eighths, then binades, down to 2^-53."""
    sign, high = (1 if range_.greatest > 0 else -1), range_.magnitude
    ends = [high * Fraction(i, 16) for i in range(16, 8, -1)]
    while high > ULP:
        high /= 2
        ends.append(high)
    return [Interval.hull([sign * a, sign * b]) for a, b in itertools.pairwise(ends)]


def least_ratio(series: Polynomial, range_: Interval) -> Fraction:
    """Return the minimum of series / f."""
    quotient = Polynomial(
        {((m[0][0], m[0][1] - 1),) if m[0][1] > 1 else (): c for m, c in series.terms.items()}
    )
    return quotient.range({"f": range_}).least


def sum_of(given: Input, name: str) -> Polynomial:
    return symbol(name) if given.value is None else given.value
