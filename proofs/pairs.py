"""The error of the phase in pairs of floats (core/numerics/pow_pairs.h), which kernels for AVX-512 and AVX2 use.

Theorem. Let x be a positive float (with AVX2 a normal one), y a float, t = y ln(x)/2, |t| <= greatest_pair_t, n the
integer that pair_place yields, and T the entry of the table of powers. Then the sum of pair_power's parts is within
T (error + |y| error_of_y + |t| error_of_t) of x^y 2^-floor(n/powers), or this bound is so great that no float is
taken; and that holds if the bound and the ends of the interval are rounded as ends_of and pair_phase_error round them.
t is renormalized if |y| > least_great_y.

    x = m 2^e   AVX-512: part j of 32 has m from 1 + j/32 to 1 + (j + 1)/32. AVX2: 128 parts of [1/2, 1), and of [1, 2),
                and x = m 4^e. The processor splits the bits
    v           (m r - 1)/2: exact, since r/2 has few bits
    ln(x)/2     whole + v - v^2 + v^3 P(v): for e = 0 and e = -1 in each part, where whole = e ln(2)/2 - ln(r)/2 may be
                near v; in binades of v where whole is 0; and for the other binades of e in all parts together
    t           y times that: the product's residual is exact, but for 2^-150. The low part has y times that of ln(x)/2,
                or at most half a unit of the high one if t is renormalized
    n           t/step, rounded, and n/powers, the octaves: |t - n step| is at most half a step and the error of 1/step
    2^(n/powers)  r = t - n step in two parts, the high one exact; 1 + 2 (r + r^2 Q(r)), for some entries of the table
                at a time
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from proofs.bounds import demand, proved_bound
from proofs.errors import Input, RoundingErrors, granularity_of, rounding_bound
from proofs.fast import node
from proofs.interval import Interval, Polynomial, floor_log2, log2_text
from proofs.phase import symbol
from proofs.sollya import absolute_error, greatest_error
from proofs.step import Step, each, once
from proofs.trace import Constant, Function, trace

Cuts = dict[int | Constant, tuple[str, Input]]

PLACE, OCTAVES, R_HIGH, R_LOW = 4, 5, 6, 8  # nodes of the trace of pair_power

UNIT = Fraction(1, 1 << 24)
LEAST_V = Fraction(1, 1 << 25)
FAR_FROM_ONE = Fraction(1, 16)  # from this |whole| on, one range of v is used for all parts
LOWER = Fraction(1, 32)  # the low part of half a logarithm is at most this part of it
GREATEST_TS = [Fraction(t) for t in (4, 5, 6, 8, 10, 12, 15, 18, 22, 26, 31, 37, 43)]
LEAST_GREAT_ERROR = Fraction(1, 1 << 22)  # from there on two ends of an interval are different floats
GREATEST_Y = 1 << 28  # from there on the bound is 2^-12, and two ends of an interval are different floats
POWERS_TOGETHER = 8  # an eighth of the table's entries
GREATEST_SLOPE = Fraction(103, 100)  # of e^2r / 2, and one over it is the least
FOR_THE_ENDS = Fraction(1, 1 << 20)  # of the bound: its own roundings


@dataclass(frozen=True)
class Tables:
    """The tables for an instruction set. `base`: that of e's powers in x. `units`: of v, and of t if n is not 0.
    `low`, `low_of_log`: the low part of half a logarithm is at most the first, and the second times its size."""

    name: str
    parts: tuple[tuple[Interval, int], ...]  # of m, and its unit
    powers: int
    base: int
    exponents: tuple[int, int]
    units: tuple[int, int]
    low: Fraction
    low_of_log: Fraction
    # The greatest low parts of t for which errors of powers are found, unless they are found for the greatest |t|.
    lows: tuple[Fraction, ...] = ()


def parts_of(begin: Fraction, count: int, unit: int) -> tuple[tuple[Interval, int], ...]:
    """Return parts of the binade of m that begins there, and the unit of m."""
    width = begin / count
    last = Fraction(2) ** unit
    return tuple((Interval(begin + j * width, begin + (j + 1) * width - last), unit) for j in range(count))


AVX512 = Tables(
    "tables",
    parts_of(Fraction(1), 32, -23),
    powers=32,
    base=2,
    exponents=(-149, 127),
    units=(-30, -31),
    low=Fraction(17, 1 << 21),
    low_of_log=Fraction(18, 1 << 22),
)
AVX2 = Tables(
    "rows",
    parts_of(Fraction(1, 2), 128, -24) + parts_of(Fraction(1), 128, -23),
    powers=256,
    base=4,
    exponents=(-63, 63),
    units=(-32, -34),
    low=Fraction(14, 1 << 22),
    low_of_log=Fraction(10, 1 << 22),
    lows=tuple(Fraction(1, 1 << 20) * Fraction(17, 16) ** i for i in range(90)),
)


def steps(core: Path) -> list[Step]:
    found = []
    for tables, name in ((AVX512, "pairs of floats, AVX-512"), (AVX2, "pairs of floats, AVX2")):
        phase = Phase(core, tables)
        found += [
            Step(f"ln(x)/2 in {name}", phase.half_log),
            Step(f"y ln(x)/2 in {name}", phase.product),
            Step(f"e^2t in {name}", phase.powers),
            Step(f"the error of {name}", phase.claims),
        ]
    return found


def constant(value: Fraction) -> Input:
    """Return a constant with its granularity. Zero is a multiple of any number."""
    unit = granularity_of(value) if value else 1000
    return Input(Interval.of(value, value), unit, Polynomial.constant(value))


class Phase:
    """The phase, traced with floats."""

    def __init__(self, core: Path, tables: Tables):
        self.trace, self.tables = trace("pairs.cpp", core, "avx2"), tables

    def claim(self, name: str) -> Fraction:
        return self.trace.constants[f"{self.tables.name}.{name}"]

    def function(self, name: str) -> Function:
        return self.trace.functions[f"{self.tables.name}.{name}"]

    def entry(self, j: int) -> tuple[Fraction, Fraction, Fraction]:
        """Return r/2, and the parts of -ln(r)/2."""
        return self.claim(f"halves.{j}"), self.claim(f"highs.{j}"), self.claim(f"lows.{j}")

    # The logarithm.

    def v(self, j: int) -> tuple[Interval, int]:
        """Return the range and the granularity of v in part j, where it is exact."""
        half = self.entry(j)[0]
        function = self.function("half_log")
        given = {"half": constant(half), "m": Input(*self.tables.parts[j])}
        given |= {name: constant(Fraction(0)) for name in ("high", "low", "e")}
        errors = RoundingErrors(function, given, until=self.node_of_v)
        ideal = symbol("m") * Polynomial.constant(half) - Polynomial.constant(Fraction(1, 2))
        demand(errors.value(self.node_of_v) == ideal, f"v is rounded in part {j}")
        return errors.range(self.node_of_v), errors.granularity(self.node_of_v) or 0

    @property
    def node_of_v(self) -> int:
        return self._first("fma", "m")

    @property
    def node_of_whole(self) -> int:
        return self._first("fma", "e")

    def _first(self, operation: str, name: str) -> int:
        """Return the first such operation whose first operand is an input."""
        nodes = self.function("half_log").nodes
        for i, found in enumerate(nodes):
            first = found.operands[0] if found.operands else None
            if found.operation == operation and isinstance(first, int) and nodes[first].name == name:
                return i
        raise AssertionError(name)

    @once
    def series(self) -> tuple[Polynomial, Fraction]:
        """Return v - v^2 + v^3 P(v), and its error as ln(1 + 2v)/2."""
        zero = constant(Fraction(0))
        errors = self.log_errors(Input(Interval(LEAST_V, Fraction(1, 64)), self.tables.units[0]), zero, zero)
        series = self.log_value(errors).only("v")
        all_v = Interval.hull(
            end for j in range(len(self.tables.parts)) for end in (self.v(j)[0].least, self.v(j)[0].greatest)
        )
        return series, absolute_error(series, "v", "log(1+2*x)/2", all_v)

    def log_errors(self, v: Input, whole: Input, whole_low: Input) -> RoundingErrors:
        """Return the errors, for ranges of v, and of e ln(2)/2 - ln(r)/2 in two parts."""
        function = self.function("half_log")
        zero = constant(Fraction(0))
        given = {"half": zero, "m": zero, "high": zero, "low": whole_low, "e": zero}
        cuts: Cuts = {self.node_of_v: ("v", v), self.node_of_whole: ("whole", whole)}
        return RoundingErrors(function, given, cuts=cuts)

    def log_value(self, errors: RoundingErrors) -> Polynomial:
        outputs = errors.function.outputs
        return errors.value(outputs["high"]) + errors.value(outputs["low"])

    def rounding(self, v: Input, whole: Input, low: Input) -> tuple[Fraction, Fraction]:
        """Return the rounding errors of a logarithm, where e ln(2) low + low of the table is `low` without them, and
        its greatest low part."""
        errors = self.log_errors(v, whole, low)
        series, _ = self.series()
        ideal = series
        for given, name in ((whole, "whole"), (low, "low")):
            ideal = ideal + (symbol(name) if given.value is None else given.value)
        high, last = errors.function.outputs["high"], errors.function.outputs["low"]
        greatest = errors.range(last).magnitude
        demand(
            greatest <= LOWER * errors.range(high).mignitude, "the low part is too great beside the high one"
        )
        return proved_bound(errors, self.log_value(errors), f"(n{high} + n{last})", ideal), greatest

    def half_log(self) -> str:
        """Prove the claims about ln(x)/2."""
        fixed, of_log = self.claim("half_log_error"), self.claim("half_log_error_of_log")
        ln2, ln2_low = self.claim("ln2.0"), self.claim("ln2.1")
        of_series = self.series()[1]
        of_ln2 = greatest_error("log(x)/2", Fraction(self.tables.base), ln2 + ln2_low)
        entries = [self.entry(j) for j in range(len(self.tables.parts))]
        of_entries = [greatest_error("-log(2*x)/2", half, high + low) for half, high, low in entries]
        vs = [self.v(j) for j in range(len(self.tables.parts))]
        all_v = Interval.hull(end for v, _ in vs for end in (v.least, v.greatest))

        highs = Interval.hull(high for _, high, _ in entries)

        def check(given: tuple[Input, Input, Input, Fraction]) -> Fraction:
            v, whole, low, more = given
            rounding, greatest_low = self.rounding(v, whole, low)
            error = rounding + of_series + more
            size = max(
                whole.range.mignitude - v.range.magnitude * Fraction(17, 16) - low.range.magnitude,
                Fraction(0),
            )
            room = fixed + size * of_log
            place = f"at whole {float(whole.range.least)}, v {float(v.range.least)}"
            demand(error <= room, f"the error is {log2_text(error)} {place}")
            most_low = self.tables.low + size * self.tables.low_of_log
            demand(greatest_low <= most_low, f"the low part is {log2_text(greatest_low)} {place}")
            return error / room

        def case(v: Interval, unit: int, whole: Input, low: Fraction, more: Fraction) -> None:
            lows = constant(low) if whole.value is not None else Input(Interval.within(low))
            cases.append((Input(v, unit), whole, lows, more))

        cases: list[tuple[Input, Input, Input, Fraction]] = []
        together: dict[tuple[int, int, bool], list[Fraction]] = {}
        unit = min(granularity for _, granularity in vs)
        greatest_low = max(abs(low) for _, _, low in entries)
        for j, ((half, high, low), (v, granularity)) in enumerate(zip(entries, vs, strict=True)):
            demand(half > 0, "r is not positive")
            for e in (0, -1):
                whole, more = high + e * ln2, of_entries[j] + abs(e) * of_ln2
                if abs(whole) >= FAR_FROM_ONE:
                    together.setdefault((e, floor_log2(abs(whole)), whole > 0), []).append(whole)
                else:
                    for some in [v] if whole else binades_of(v):
                        case(some, granularity, constant(whole), low + e * ln2_low, more)
        wholes = [(abs(e), Interval.hull(found)) for (e, _, _), found in together.items()]
        wholes += [
            (max(abs(least), abs(greatest)), Interval.of(least, greatest).times(ln2) + highs)
            for least, greatest in exponent_ranges(*self.tables.exponents)
        ]
        for reach, whole_range in wholes:
            demand(whole_range.magnitude <= Fraction(1 << 6), "e ln(2) - ln(r) has too many bits")
            low = reach * ln2_low + greatest_low
            more = max(of_entries) + reach * of_ln2 + rounding_bound(low, True)
            case(all_v, unit, Input(whole_range, -18), low, more)
        ratio = max(each(check, cases))
        return f"{float(ratio):.3f} of {log2_text(fixed)} + |ln(x)/2| {log2_text(of_log)}"

    # The product.

    def product(self) -> str:
        """Prove that the product's low part has the only rounding error, and that renormalizing has none. (Where a part
        is below the normal floats, there are errors of 2^-148 in all.)"""
        one_to_two = Interval.of(1, 2)
        given = {
            "log": Input(one_to_two, -23),
            "log_low": Input(Interval.within(2 * LOWER)),
            "y": Input(one_to_two, -23),
        }
        errors = RoundingErrors(self.function("times"), given)
        high, low = node(errors.function.outputs["high"]), node(errors.function.outputs["low"])
        t = errors.value(high) + errors.value(low)
        error = t - symbol("y") * (symbol("log") + symbol("log_low"))
        demand(error.terms == {((f"d{low}", 1),): 1}, "another operation is rounded")
        renormalized = [errors.value(errors.function.outputs[name]) for name in ("new_high", "new_low")]
        demand(renormalized[0] + renormalized[1] == t, "renormalizing is not exact")
        demand(
            errors.range(errors.function.outputs["new_low"]).magnitude <= 4 * UNIT,
            "the low part is too great",
        )
        of_y, of_t = self.of_product
        return f"|y| {log2_text(of_y)} + |t| {log2_text(of_t)}"

    @property
    def of_product(self) -> tuple[Fraction, Fraction]:
        """Return the error of y times a logarithm, for each unit of |y| and of |t|: half a unit of its low part."""
        upwards = UNIT * (1 + 4 * UNIT)
        return self.tables.low * upwards, (self.tables.low_of_log + UNIT) * upwards

    # The power.

    def powers(self) -> str:
        """Return the errors of powers with the least t, without and with a renormalized t."""
        return f"{log2_text(self.power(*self.cases()[1][:2]))}, {log2_text(self.power(*self.cases()[0][:2]))}"

    def cases(self) -> list[tuple[Fraction, Fraction, Fraction, Fraction]]:
        """Return the greatest |t| and low part of t in each case, and the least |t| and low part; first those with a
        renormalized t."""
        most_t, zero = self.claim("greatest_pair_t"), Fraction(0)
        of_y, of_t = self.of_product
        low_of_y = self.claim("least_great_y") * of_y / UNIT
        cases = [(most_t, UNIT * most_t * (1 + 4 * UNIT), zero, zero)]
        if self.tables.lows:
            demand(
                low_of_y + most_t * of_t / UNIT <= self.tables.lows[-1], "the low part of t may be greater"
            )
            return cases + [
                (most_t, low, zero, least) for least, low in itertools.pairwise([zero, *self.tables.lows])
            ]
        return cases + [
            (t, low_of_y + t * of_t / UNIT, least, zero)
            for least, t in itertools.pairwise([zero, *GREATEST_TS])
        ]

    @once
    def power(self, greatest_t: Fraction, greatest_low: Fraction) -> Fraction:
        """Return the error of a power as 2^(n/powers) e^2(t - n step), divided by 2^floor(n/powers) and by the entry of
        the table of powers."""
        step, step_low, steps = self.claim("step.0"), self.claim("step.1"), self.claim("steps")
        greatest_n = int(greatest_t * steps) + 1
        # n is the integer nearest to t steps.
        reach = 1 / (2 * steps) + greatest_n * abs(1 / steps - step)
        corrections = max(abs(self.claim(f"corrections.{i}")) for i in range(self.tables.powers))
        of_low = self.of_low(greatest_t, reach, greatest_low, corrections)
        low_reach = greatest_low + corrections + greatest_n * abs(step_low) + of_low
        u_range = Interval.within(reach + low_reach)
        of_u = self.of_power()
        of_series = absolute_error(of_u, "u", "exp(2*x)", u_range)
        of_corrections = max(map(self.of_entry_of_powers, range(self.tables.powers)))
        of_step = greatest_error(f"log(2)/{2 * self.tables.powers}*x", Fraction(1), step + step_low)
        exponent = 2 * (of_low + of_corrections + greatest_n * of_step)
        demand(self.slope(u_range.magnitude) <= GREATEST_SLOPE, "e^2r is too far from 1")
        powers = [self.claim(f"powers.{i}") for i in range(self.tables.powers)]
        together = len(powers) // POWERS_TOGETHER
        roundings = [
            self.of_entries(powers[i : i + together], reach, low_reach, of_u)
            for i in range(0, len(powers), together)
        ]
        return max(roundings) + of_series + exponent * GREATEST_SLOPE

    def slope(self, u: Fraction) -> Fraction:
        """Return a bound of e^2u, u below 1/8."""
        return 1 + 2 * u + 4 * u * u

    def of_low(
        self, greatest_t: Fraction, reach: Fraction, greatest_low: Fraction, corrections: Fraction
    ) -> Fraction:
        """Prove that the high part of r is exact, and return the error of the low one."""
        function = self.function("pair_power")
        nodes = function.nodes
        powers = self.tables.powers
        octave, octave_low = powers * self.claim("step.0"), powers * self.claim("step.1")
        magic = Constant(Fraction(3 << 22, powers))
        steps = self.claim("steps")
        greatest_n = int(greatest_t * steps) + 1
        demand(
            [nodes[PLACE].operation, nodes[OCTAVES].operation] == ["fma", "sub"]
            and nodes[PLACE].operands[1:] == (Constant(steps / powers), magic)
            and nodes[OCTAVES].operands == (PLACE, magic),
            "n has another form",
        )
        given = {
            "t_low": Input(Interval.within(greatest_low)),
            "correction": Input(Interval.within(corrections)),
            "power": Input(Interval.of(1, 2), -23),
        }
        of_low = Fraction(0)
        some_octaves = Input(Interval.within(Fraction(greatest_n, powers)), -floor_log2(Fraction(powers)))
        for octaves in (constant(Fraction(0)), some_octaves):
            count = symbol("octaves") if octaves.value is None else octaves.value
            t_value = symbol("r") + count * Polynomial.constant(octave)
            # t is at least half a step unless n is 0, and a multiple of a unit of its last place.
            unit = None if octaves.value is not None else self.tables.units[1]
            if unit is not None:
                demand((Fraction(1, 2) - UNIT) / steps >= Fraction(2) ** (unit + 23), "t is too small")
            t = {"t": Input(Interval.within(greatest_t), unit, t_value)}
            others = {"r": Input(Interval.within(reach), unit)}
            if unit is not None:
                others["octaves"] = octaves
            cuts: Cuts = {OCTAVES: ("octaves", octaves)}
            errors = RoundingErrors(function, given | t, cuts=cuts, until=R_LOW, others=others)
            demand(errors.value(R_HIGH) == symbol("r"), "r is rounded")
            ideal = symbol("t_low") + symbol("correction") - count * Polynomial.constant(octave_low)
            of_low = max(of_low, proved_bound(errors, errors.value(R_LOW), f"n{R_LOW}", ideal))
        return of_low

    def of_entries(
        self, powers: list[Fraction], reach: Fraction, low_reach: Fraction, of_u: Polynomial
    ) -> Fraction:
        """Return the rounding errors of a power and of an end of its interval, divided by the table's entry."""
        function = self.function("pair_power")
        zero = constant(Fraction(0))
        cuts: Cuts = {
            R_HIGH: ("r", Input(Interval.within(reach))),
            R_LOW: ("low", Input(Interval.within(low_reach))),
            OCTAVES: ("octaves", zero),
        }
        given = {"t": zero, "t_low": zero, "correction": zero, "power": Input(Interval.hull(powers), -23)}
        errors = RoundingErrors(function, given, cuts=cuts)
        high, low = node(function.outputs["high"]), node(function.outputs["low"])
        value = errors.value(high) + errors.value(low)
        ideal = symbol("power") * of_u.with_value("u", symbol("r") + symbol("low"))
        rounding = proved_bound(errors, value, f"(n{high} + n{low})", ideal)
        greatest_end = errors.range(low).magnitude * (1 + FOR_THE_ENDS) + LEAST_GREAT_ERROR * max(powers)
        of_end = rounding_bound(greatest_end, True)
        return (rounding + of_end) / min(powers)

    def of_entry_of_powers(self, i: int) -> Fraction:
        """Return the error of a correction: i ln(2)/32 - ln(power)/2."""
        power, correction = self.claim(f"powers.{i}"), self.claim(f"corrections.{i}")
        exact = f"log(2)*x/{2 * self.tables.powers}-log({power.numerator}/{power.denominator})/2"
        return greatest_error(exact, Fraction(i), correction)

    def of_power(self) -> Polynomial:
        """Return 1 + 2 (u + u^2 Q(u))."""
        function = self.function("pair_power")
        zero, one = constant(Fraction(0)), constant(Fraction(1))
        given = {"t": zero, "t_low": zero, "correction": zero, "power": one}
        cuts: Cuts = {
            R_HIGH: ("u", Input(Interval.of(Fraction(1, 1024), Fraction(1, 512)))),
            R_LOW: ("low", zero),
            OCTAVES: ("octaves", zero),
        }
        errors = RoundingErrors(function, given, cuts=cuts)
        return (
            errors.value(node(function.outputs["high"])) + errors.value(node(function.outputs["low"]))
        ).only("u")

    def claims(self) -> str:
        """Prove that the code's constants bound the errors."""
        fixed, of_y, of_t = (self.claim(f"error{name}") for name in ("", "_of_y", "_of_t"))
        of_great_y = self.claim("error_of_great_y")
        of_y_product, of_t_product = self.of_product
        demand(of_great_y * GREATEST_Y >= Fraction(1, 1 << 12), "a great y may be decided")
        demand(self.claim("greatest_pair_t") <= GREATEST_TS[-1], "t may be greater")
        half_log, of_log = self.claim("half_log_error"), self.claim("half_log_error_of_log")
        most = GREATEST_Y * (half_log + of_y_product) + 43 * (of_log + of_t_product)
        slope = 2 * GREATEST_SLOPE * (1 + 2 * most) * (1 + FOR_THE_ENDS)
        y_bound, t_bound = slope * (half_log + of_y_product), slope * (of_log + of_t_product)
        for claimed in (of_y, of_great_y):
            demand(y_bound <= claimed, f"|y| {log2_text(y_bound)}, and {log2_text(claimed)} is claimed")
        demand(t_bound < of_t, f"|t| {log2_text(t_bound)}, and {log2_text(of_t)} is claimed")
        # What is left for the low part of t, which is at most these parts of |y| and |t|.
        of_low = min((of_y - y_bound) * UNIT / of_y_product, (of_t - t_bound) * UNIT / of_t_product)
        for t, low, least_t, least_low in self.cases():
            bound = (self.power(t, low) + Fraction(1, 1 << 140)) * (1 + FOR_THE_ENDS)
            claim = fixed + least_t * (of_t - t_bound) + least_low * of_low
            demand(
                bound <= claim,
                f"{log2_text(bound)} up to |t| {t} and low {log2_text(low)}, and {log2_text(claim)} is claimed",
            )
        return f"{log2_text(fixed)} + |y| {log2_text(of_y)} + |t| {log2_text(of_t)}"


def binades_of(range_: Interval) -> list[Interval]:
    """Return the binades of a range from or to zero, down to the least |v|."""
    sign, high = (1 if range_.greatest > 0 else -1), range_.magnitude
    found = []
    while high >= LEAST_V:
        found.append(Interval.hull([sign * high, sign * high / 2]))
        high /= 2
    return found


def exponent_ranges(least: int, greatest: int) -> list[tuple[int, int]]:
    """Return the exponents except 0 and -1, in ranges whose ends differ by a twelfth at most."""
    ranges = []
    for sign, first, last in ((1, 1, greatest), (-1, 2, -least)):
        while first <= last:
            end = min(first + first // 12, last)
            ranges.append((first, end) if sign > 0 else (-end, -first))
            first = end + 1
    return ranges
