"""The error of the phase in pairs of floats (core/numerics/pow_pairs.h), which kernels for AVX-512 use.

Theorem. Let x be a positive normal float, y a float, t = y ln(x)/2, |t| <= greatest_pair_t, and n the integer that
pair_place yields. Then the sum of pair_power's parts is within pair_error + |y| pair_error_of_y + |t| pair_error_of_t
of x^y 2^-floor(n/16), or this bound is so great that no float is taken; and that holds if the bound and the ends of the
interval are rounded as ends_of and pair_phase_error round them.

    x = m 2^e   part j of 32 has m from 1 + j/32 to 1 + (j + 1)/32: the processor splits the bits
    v           (m r - 1)/2: exact, since r/2 has few bits
    ln(x)/2     whole + v - v^2 + v^3 P(v): for e = 0 and e = -1 in each part, where whole = e ln(2)/2 - ln(r)/2 may be
                near v; in binades of v where whole is 0; and for the other binades of e in all parts together
    t           y times that: the product's residual is exact, but for 2^-150
    n           t/step, rounded: |t - n step| is at most half a step and the error of 1/step
    2^(n/16)    r = t - n step in two parts, the high one exact; 1 + 2 (r + r^2 Q(r)), for all entries together
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from proofs.bounds import demand, proved_bound
from proofs.errors import Input, RoundingErrors, granularity_of, rounding_bound
from proofs.fast import node
from proofs.interval import Interval, Polynomial, floor_log2, log2_text
from proofs.phase import symbol
from proofs.sollya import absolute_error, greatest_error
from proofs.step import Step, each, once
from proofs.trace import Constant, trace

Cuts = dict[int | Constant, tuple[str, Input]]

PARTS, POWERS = 32, 16
EXPONENTS = (-126, 127)
UNIT = Fraction(1, 1 << 24)
LEAST_V = Fraction(1, 1 << 25)
FAR_FROM_ONE = Fraction(1, 16)  # from this |whole| on, one range of v is used for all parts
GREATEST_Y = 1 << 27  # from there on the bound is 2^-10, and two ends of an interval are different floats
GREATEST_POWER = Fraction(23, 12)  # more than 2^(15/16)
FOR_THE_ENDS = Fraction(1, 1 << 20)  # of the bound: its own roundings


def steps(core: Path) -> list[Step]:
    phase = Phase(core)
    return [
        Step("ln(x)/2 in pairs of floats", phase.half_log),
        Step("y ln(x)/2 in pairs of floats", lambda: log2_text(phase.times())),
        Step("e^2t in pairs of floats", lambda: log2_text(phase.power())),
        Step("pair_error", phase.claims),
    ]


def constant(value: Fraction) -> Input:
    """Return a constant with its granularity. Zero is a multiple of any number."""
    unit = granularity_of(value) if value else 1000
    return Input(Interval.of(value, value), unit, Polynomial.constant(value))


class Phase:
    """The phase, traced with floats."""

    def __init__(self, core: Path):
        self.trace = trace("pairs.cpp", core, "avx2")

    def claim(self, name: str) -> Fraction:
        return self.trace.constants[name]

    def entry(self, j: int) -> tuple[Fraction, Fraction, Fraction]:
        """Return r/2, and the parts of -ln(r)/2."""
        return self.claim(f"halves.{j}"), self.claim(f"highs.{j}"), self.claim(f"lows.{j}")

    # The logarithm.

    def v(self, j: int) -> tuple[Interval, int]:
        """Return the range and the granularity of v in part j, where it is exact."""
        half = self.entry(j)[0]
        m = Interval(1 + Fraction(j, PARTS), 1 + Fraction(j + 1, PARTS) - Fraction(1, 1 << 23))
        function = self.trace.functions["half_log"]
        given = {"half": constant(half), "m": Input(m, -23)}
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
        nodes = self.trace.functions["half_log"].nodes
        for i, found in enumerate(nodes):
            first = found.operands[0] if found.operands else None
            if found.operation == operation and isinstance(first, int) and nodes[first].name == name:
                return i
        raise AssertionError(name)

    @once
    def series(self) -> tuple[Polynomial, Fraction]:
        """Return v - v^2 + v^3 P(v), and its error as ln(1 + 2v)/2."""
        errors = self.log_errors(
            Input(Interval(LEAST_V, Fraction(1, 64)), -30), constant(Fraction(0)), constant(Fraction(0))
        )
        series = self.log_value(errors).only("v")
        all_v = Interval.hull(
            end for j in range(PARTS) for end in (self.v(j)[0].least, self.v(j)[0].greatest)
        )
        return series, absolute_error(series, "v", "log(1+2*x)/2", all_v)

    def log_errors(self, v: Input, whole: Input, whole_low: Input) -> RoundingErrors:
        """Return the errors, for ranges of v, and of e ln(2)/2 - ln(r)/2 in two parts."""
        function = self.trace.functions["half_log"]
        zero = constant(Fraction(0))
        given = {"half": zero, "m": zero, "high": zero, "low": whole_low, "e": zero}
        cuts: Cuts = {self.node_of_v: ("v", v), self.node_of_whole: ("whole", whole)}
        return RoundingErrors(function, given, cuts=cuts)

    def log_value(self, errors: RoundingErrors) -> Polynomial:
        outputs = errors.function.outputs
        return errors.value(outputs["high"]) + errors.value(outputs["low"])

    def rounding(self, v: Input, whole: Input, low: Input) -> Fraction:
        """Return the rounding errors of a logarithm, where e ln(2) low + low of the table is `low` without them."""
        errors = self.log_errors(v, whole, low)
        series, _ = self.series()
        ideal = series
        for given, name in ((whole, "whole"), (low, "low")):
            ideal = ideal + (symbol(name) if given.value is None else given.value)
        outputs = errors.function.outputs
        high, last = outputs["high"], outputs["low"]
        demand(
            errors.range(last).magnitude <= UNIT * errors.range(high).magnitude
            or errors.range(high).magnitude == 0,
            "the low part is too great",
        )
        return proved_bound(errors, self.log_value(errors), f"(n{high} + n{last})", ideal)

    def half_log(self) -> str:
        """Prove the claims about ln(x)/2."""
        fixed, of_log = self.claim("half_log_error"), self.claim("half_log_error_of_log")
        ln2, ln2_low = self.claim("ln2.0"), self.claim("ln2.1")
        of_series = self.series()[1]
        of_ln2 = greatest_error("log(x)/2", Fraction(2), ln2 + ln2_low)
        entries = [self.entry(j) for j in range(PARTS)]
        of_entries = [greatest_error("-log(2*x)/2", half, high + low) for half, high, low in entries]
        vs = [self.v(j) for j in range(PARTS)]
        all_v = Interval.hull(end for v, _ in vs for end in (v.least, v.greatest))

        highs = Interval.hull(high for _, high, _ in entries)

        def check(given: tuple[Input, Input, Input, Fraction]) -> Fraction:
            v, whole, low, more = given
            error = self.rounding(v, whole, low) + of_series + more
            size = whole.range.mignitude - v.range.magnitude * Fraction(17, 16) - low.range.magnitude
            room = fixed + max(size, Fraction(0)) * of_log
            demand(
                error <= room,
                f"the error is {log2_text(error)} at whole {float(whole.range.least)}, v {float(v.range.least)}",
            )
            return error / room

        def case(v: Interval, unit: int, whole: Input, low: Fraction, more: Fraction) -> None:
            lows = constant(low) if whole.value is not None else Input(Interval.within(low))
            cases.append((Input(v, unit), whole, lows, more))

        cases: list[tuple[Input, Input, Input, Fraction]] = []
        together: dict[tuple[int, bool], list[Fraction]] = {}
        unit = min(granularity for _, granularity in vs)
        greatest_low = max(abs(low) for _, _, low in entries)
        for j, ((half, high, low), (v, granularity)) in enumerate(zip(entries, vs, strict=True)):
            demand(half > 0, "r is not positive")
            for e in (0, -1):
                whole, more = high + e * ln2, of_entries[j] + abs(e) * of_ln2
                if abs(whole) >= FAR_FROM_ONE:
                    together.setdefault((floor_log2(abs(whole)), whole > 0), []).append(whole)
                else:
                    for some in [v] if whole else binades_of(v):
                        case(some, granularity, constant(whole), low + e * ln2_low, more)
        wholes = [(0, Interval.hull(found)) for found in together.values()]
        wholes += [
            (max(abs(least), abs(greatest)), Interval.of(least, greatest).times(ln2) + highs)
            for least, greatest in exponent_ranges()
        ]
        for reach, whole_range in wholes:
            demand(whole_range.magnitude <= Fraction(1 << 6), "e ln(2) - ln(r) has too many bits")
            low = (reach + 1) * ln2_low + greatest_low
            more = max(of_entries) + (reach + 1) * of_ln2 + rounding_bound(low, True)
            case(all_v, unit, Input(whole_range, -18), low, more)
        ratio = max(each(check, cases))
        return f"{float(ratio):.3f} of {log2_text(fixed)} + |ln(x)/2| {log2_text(of_log)}"

    # The product.

    @once
    def times(self) -> Fraction:
        """Return the relative error of y times a logarithm. (Binades differ by powers of two; where a part is below the
        normal floats, by 2^-148 in all.)"""
        one_to_two = Interval.of(1, 2)
        given = {
            "log": Input(one_to_two, -23),
            "log_low": Input(Interval.within(UNIT * 2)),
            "y": Input(one_to_two, -23),
        }
        errors = RoundingErrors(self.trace.functions["times"], given)
        high, low = errors.function.outputs["high"], errors.function.outputs["low"]
        value = errors.value(high) + errors.value(low)
        ideal = symbol("y") * (symbol("log") + symbol("log_low"))
        demand(errors.range(low).magnitude <= 8 * UNIT, "the low part is too great")
        return proved_bound(errors, value, f"(n{high} + n{low})", ideal) / (1 - 2 * UNIT)

    # The power.

    @once
    def power(self) -> Fraction:
        """Return the error of a power as 2^(n/16) e^2(t - n step), divided by 2^floor(n/16)."""
        function = self.trace.functions["pair_power"]
        nodes = function.nodes
        step, step_low, steps = self.claim("step.0"), self.claim("step.1"), self.claim("steps")
        greatest_t = self.claim("greatest_pair_t")
        greatest_n = int(greatest_t * steps) + 1
        # n is the integer nearest to t steps.
        reach = 1 / (2 * steps) + greatest_n * abs(1 / steps - step)
        place, n, r_high, r_low = 4, 5, 6, 8  # nodes of the trace
        demand(
            [nodes[place].operation, nodes[n].operation] == ["fma", "sub"]
            and nodes[place].operands[1:] == (Constant(steps), Constant(Fraction(3 << 22)))
            and nodes[n].operands == (place, Constant(Fraction(3 << 22))),
            "n has another form",
        )
        greatest_low = (
            2 * UNIT * greatest_t * (1 + 4 * UNIT)
        )  # half a unit of y s, and |y low| <= half a unit of y s
        corrections = max(abs(self.claim(f"corrections.{i}")) for i in range(POWERS))
        given = {
            "t_low": Input(Interval.within(greatest_low)),
            "correction": Input(Interval.within(corrections)),
            "power": Input(Interval(Fraction(1), GREATEST_POWER), -23),
        }
        r = {"r": Input(Interval.within(reach))}
        of_low = Fraction(0)
        for n_input in (constant(Fraction(0)), Input(Interval.within(greatest_n), 0)):
            n_value = symbol("n") if n_input.value is None else n_input.value
            t_value = symbol("r") + n_value * Polynomial.constant(step)
            # t is at least half a step unless n is 0, and a multiple of a unit of its last place.
            unit = None if n_input.value is not None else -30
            if unit is not None:
                demand((Fraction(1, 2) - UNIT) / steps >= Fraction(2) ** (unit + 23), "t is too small")
            t = {"t": Input(Interval.within(greatest_t), unit, t_value)}
            others = {"r": Input(r["r"].range, unit)} | ({"n": n_input} if unit is not None else {})
            errors = RoundingErrors(function, given | t, cuts={n: ("n", n_input)}, until=r_low, others=others)
            demand(errors.value(r_high) == symbol("r"), "r is rounded")
            ideal = symbol("t_low") + symbol("correction") - n_value * Polynomial.constant(step_low)
            of_low = max(of_low, proved_bound(errors, errors.value(r_low), f"n{r_low}", ideal))
        low_reach = greatest_low + corrections + greatest_n * abs(step_low) + of_low
        cuts: Cuts = {
            r_high: ("r", r["r"]),
            r_low: ("low", Input(Interval.within(low_reach))),
            n: ("n", constant(Fraction(0))),
        }
        zero = {"t": constant(Fraction(0))}
        errors = RoundingErrors(function, given | zero, cuts=cuts)
        high, low = node(function.outputs["high"]), node(function.outputs["low"])
        value = errors.value(high) + errors.value(low)
        of_u = self.of_power()
        u = symbol("r") + symbol("low")
        ideal = symbol("power") * of_u.with_value("u", u)
        rounding = proved_bound(errors, value, f"(n{high} + n{low})", ideal)
        u_range = Interval.within(reach + low_reach)
        of_series = absolute_error(of_u, "u", "exp(2*x)", u_range)
        of_corrections = max(map(self.of_entry_of_powers, range(POWERS)))
        of_step = greatest_error(f"log(2)/{2 * POWERS}*x", Fraction(1), step + step_low)
        exponent = 2 * (of_low + of_corrections + greatest_n * of_step)
        demand(errors.range(low).magnitude <= Fraction(1, 1 << 10), "the low part is too great")
        of_ends = rounding_bound(errors.range(low).magnitude, True)
        return rounding + GREATEST_POWER * (of_series + exponent * Fraction(17, 16)) + of_ends

    def of_entry_of_powers(self, i: int) -> Fraction:
        """Return the error of a correction: i ln(2)/32 - ln(power)/2."""
        power, correction = self.claim(f"powers.{i}"), self.claim(f"corrections.{i}")
        exact = f"log(2)*x/{2 * POWERS}-log({power.numerator}/{power.denominator})/2"
        return greatest_error(exact, Fraction(i), correction)

    def of_power(self) -> Polynomial:
        """Return 1 + 2 (u + u^2 Q(u))."""
        function = self.trace.functions["pair_power"]
        zero, one = constant(Fraction(0)), constant(Fraction(1))
        given = {"t": zero, "t_low": zero, "correction": zero, "power": one}
        cuts: Cuts = {
            6: ("u", Input(Interval.of(Fraction(1, 1024), Fraction(1, 512)))),
            8: ("low", zero),
            5: ("n", zero),
        }
        errors = RoundingErrors(function, given, cuts=cuts)
        return (
            errors.value(node(function.outputs["high"])) + errors.value(node(function.outputs["low"]))
        ).only("u")

    def claims(self) -> str:
        """Prove that the code's constants bound the errors."""
        fixed, of_y, of_t = (self.claim(f"pair_error{name}") for name in ("", "_of_y", "_of_t"))
        half_log, of_log = self.claim("half_log_error"), self.claim("half_log_error_of_log")
        demand(of_y * GREATEST_Y >= Fraction(1, 1 << 10), "a great y may be decided")
        most = GREATEST_Y * half_log + 43 * (of_log + self.times())
        slope = 2 * GREATEST_POWER * Fraction(103, 100) * (1 + 2 * most)  # e^2r is below 1.03
        for name, bound, claim in (
            ("", self.power() + Fraction(1, 1 << 140), fixed),
            ("|y| ", slope * half_log, of_y),
            ("|t| ", slope * (of_log + self.times()) * (1 + UNIT), of_t),
        ):
            demand(
                bound * (1 + FOR_THE_ENDS) <= claim,
                f"{name}{log2_text(bound)}, and {log2_text(claim)} is claimed",
            )
        return (
            f"{log2_text(self.power())} + |y| {log2_text(slope * half_log)} + |t| {log2_text(slope * of_log)}"
        )


def binades_of(range_: Interval) -> list[Interval]:
    """Return the binades of a range from or to zero, down to the least |v|."""
    sign, high = (1 if range_.greatest > 0 else -1), range_.magnitude
    found = []
    while high >= LEAST_V:
        found.append(Interval.hull([sign * high, sign * high / 2]))
        high /= 2
    return found


def exponent_ranges() -> list[tuple[int, int]]:
    """Return the exponents except 0 and -1, in ranges."""
    least, greatest = EXPONENTS
    positive = [(1 << i, min((2 << i) - 1, greatest)) for i in range(7)]
    negative = [(max(-(2 << i), least), -(1 << i) - 1) for i in range(7)]
    return positive + negative
