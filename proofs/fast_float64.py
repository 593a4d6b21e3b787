"""The fast phase of float64 without AVX-512 (core/numerics/pow_fast_float64.h), with and without fused operations: x^y
is between the ends of its interval.

Theorem. Let x be a positive double, y = y_high + y_low an exponent of the kernels, t = float64_t(...) with
|t.high| <= 691, `most` at least |t.low|, and |t.low| <= 2^-14 or t made a pair by fast_two_sum after that. Before they
are rounded to doubles, float64_ends with the error float64_error_at(most) are not above and not below x^y. Vectors
compute each lane as doubles are computed. If |t.high| <= 751, the same holds for float64_power with the table's
2^(i/256), 1 <= 2^(i/256) < 2, and x^y without its octave, of which round_to (proofs/rounding.py) loses less than
float64_ends.

    x = m 2^e   part j of 128 has m from 1 + (2 j - 1)/256 + 2^-15 to 1 + (2 j + 1)/256 + 2^-15, and part 0 from
                1 - 1/512 + 2^-16: programs/splits.cpp tests both ends of each
    tables      - log(r)/2, ln(2)/2 and 2^(i/256), each entry against the function
    v           (m r - 1)/2, exact, for each part
    log(x)/2    whole + v - v^2 + (v^3 P(v) + (whole_low + lost)). What v^3 P loses is relative to itself, and so to the
                low part of t, but for the rest of that; what the others lose is relative to log x: where it is v, for
                each binade of v; for each part next to 1; elsewhere for each binade of whole
    t           2 y times that: the low part is rounded by its own size
    s           t - n ln(2)/256: `steps`, a cut, is the integer n. The high part is exact, for each binade of t.high.
                The low part for each binade of t.low
    x^y         power (1 + s + s^2 Q(s)), for the same binades and eighths of 1 <= power < 2: other powers
                differ by a power of two, and by 2^-1075 if a product is subnormal
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

from proofs import gappa
from proofs.bounds import LN2, demand, proved_bound, together
from proofs.compiled import output, program
from proofs.errors import Input, RoundingErrors, rounding_bound
from proofs.fast import ULP, node
from proofs.fast_sixteenths import ENTRY, Sixteenths
from proofs.interval import Interval, Polynomial, floor_log2, log2_text
from proofs.logarithm_tables import Case, sum_of
from proofs.phase import both_signs, symbol
from proofs.rounding import GREATEST_ERROR_ON_GRID, GREATEST_LOW_ON_GRID
from proofs.sollya import greatest_error, relative_error
from proofs.step import Step, each, once
from proofs.trace import Constant, Function, Operand

PARTS, STEPS = 128, 256
GREATEST_T = 751  # a pair's high part may be greater than the sum's
GREATEST_T_IN_POWERS = 691  # if the octaves are in the table's powers
EXPONENTS = (-1074, 1024)
GREATEST_S = Fraction(142, 100000)
E_TO_S = 1 + 2 * GREATEST_S  # more than e^s
# Of |t.low|. Within a range, errors are those of its end.
RANGES = [Fraction(1, 1 << i) for i in range(20, 13, -1)]
SUBNORMAL = Fraction(1, 1 << 1075) * (1 << 998)  # what a subnormal product loses, of the least power


def steps(core: Path) -> list[Step]:
    fused, not_fused = Float64(core, "avx2"), Float64(core, "scalar")
    return [
        Step(
            "x = m 2^e in parts of a binade", lambda: output(program("splits.cpp", core), "float64").strip()
        ),
        Step("the table of logarithms", lambda: log2_text(fused.logarithms())),
        Step("the table of powers", lambda: log2_text(fused.powers())),
        *steps_of(fused, "fused", quick=True),
        *steps_of(not_fused, "not fused", quick=False),
    ]


def steps_of(phase: Float64, name: str, *, quick: bool) -> list[Step]:
    return [
        Step(f"v = (m r - 1)/2 is exact, {name}", phase.range_of_f),
        Step(f"what v^3 P loses, {name}", lambda: f"{log2_text(phase.of_cube())} of it"),
        Step(f"log(x)/2 without that, {name}", lambda: log2_text(phase.log()[0]), quick),
        Step(f"the high part of t - n ln(2)/256 is exact, {name}", phase.high_remainders),
        Step(f"float64_error, {name}", phase.claims, quick),
    ]


def greatest_e(whole: Interval) -> Fraction:
    """Return a bound of |e| for whole = e ln(2)/2 - log(r)/2: the second is from 0 to ln(2)/2."""
    return 3 * whole.magnitude + Fraction(101, 100)


class Float64(Sixteenths):
    """The phase, compiled for an instruction set. The tables are those of the fused one."""

    begin_name, log_name, unit = "begin_float64_log", "float64_log", 1
    parts = PARTS
    far_from_one = Fraction(1, 32)

    def __init__(self, core: Path, instruction_set: str):
        super().__init__(core)
        self.tables: Float64 = self
        if instruction_set != "avx2":
            self.tables = Float64(core, "avx2")
            super(Sixteenths, self).__init__(core, instruction_set)

    def entry(self, j: int) -> tuple[Fraction, Fraction, Fraction]:
        return super().entry(j) if self.tables is self else self.tables.entry(j)

    def ln2(self) -> tuple[Fraction, Fraction]:
        return super().ln2() if self.tables is self else self.tables.ln2()

    def greatest_low_of(self, whole: Interval) -> Fraction:
        return (greatest_e(whole) * abs(self.ln2()[1]) + Fraction(1, 1 << 45)) * (1 + 2 * ULP)

    @once
    def powers(self) -> Fraction:
        """Return the relative error of the table of 2^(i/256), with its corrections in the exponent."""
        entries = [
            (self.claim(f"float64_power.{i}"), self.claim(f"float64_correction.{i}")) for i in range(STEPS)
        ]
        demand(
            all(1 <= power < 2 and abs(lost) <= ULP for power, lost in entries), "a correction is too large"
        )
        # e^lost is 1 + lost, but for its square.
        return max(
            greatest_error("2^x", Fraction(i, STEPS), power * (1 + lost)) + 2 * lost**2
            for i, (power, lost) in enumerate(entries)
        )

    @once
    def fs(self, j: int) -> list[Input]:
        """Return v of part j. It is exact, and so is the high part of e ln(2)/2 - log(r)/2."""
        shift = Fraction(1, 1 << 15)
        low, high = (1 + Fraction(2 * j + side, 256) + shift for side in (-1, 1))
        ms = [Input(Interval(low, high - 2 * ULP), -52)]
        if j == 0:
            ms = [
                Input(Interval(1 - Fraction(1, 512) + shift / 2, 1 - ULP), -53),
                Input(Interval(Fraction(1), high - 2 * ULP), -52),
            ]
        function, found = self.function(f"begin_float64_log.{j}"), []
        v = node(function.outputs["v"])
        r, part, _ = self.entry(j)
        for m in ms:
            errors = RoundingErrors(function, {"m": m, "e": Input(Interval.of(*EXPONENTS), 0)})
            ideal = symbol("m") * Polynomial.constant(r) - Polynomial.constant(Fraction(1, 2))
            demand(errors.value(v) == ideal, f"v is rounded in part {j}")
            # A multiple of 2^-44 below 2^9, and so is the product.
            unit = Fraction(1, 1 << 44)
            greatest = max(map(abs, EXPONENTS)) * self.ln2()[0] + part
            is_whole = part % unit == 0 and self.ln2()[0] % unit == 0 and greatest < 1 << 9
            demand(is_whole, f"e ln(2)/2 - log(r)/2 is rounded in part {j}")
            demand(self.is_sum_of_product(function, "whole"), f"part {j} begins in another way")
            demand(self.is_sum_of_product(function, "whole_low"), f"part {j} begins in another way")
            found.append(Input(errors.range(v), errors.granularity(v)))
        return found

    def is_sum_of_product(self, function: Function, name: str) -> bool:
        """Return whether an output is a product of e plus a constant."""
        last = function.nodes[node(function.outputs[name])]
        product = last if last.operation == "fma" else function.nodes[node(last.operands[0])]
        e = next(i for i, found in enumerate(function.nodes) if found.name == "e")
        is_known = last.operation == "fma" or (last.operation, product.operation) == ("add", "mul")
        return is_known and product.operands[0] == e and isinstance(last.operands[-1], Constant)

    def series(self) -> tuple[int, int, int]:
        """Return the nodes of v^3, P and the sum of the other low parts, of which v^3 P + the sum is the low part."""
        function = self.function("float64_log")
        last = function.nodes[node(function.outputs["low"])]
        product = last if last.operation == "fma" else function.nodes[node(last.operands[0])]
        is_known = last.operation == "fma" or (last.operation, product.operation) == ("add", "mul")
        demand(is_known, "the low part is found in another way")
        cube, p = map(node, product.operands[:2])
        square = next(
            i for i, n in enumerate(function.nodes) if n.operation == "mul" and n.operands == (0, 0)
        )
        demand(function.nodes[cube].operands == (square, 0) and function.nodes[0].name == "v", "not v^3")
        return cube, p, node(last.operands[-1])

    @once
    def of_cube(self) -> Fraction:
        """Return what v^3 P loses of itself: by P, by rounding the square, the cube, the product, and its sum."""
        _, p, _ = self.series()
        given = {"v": Input(self.all_f()), "whole": Input.constant(0), "whole_low": Input.constant(0)}
        errors = RoundingErrors(self.function("float64_log"), given, until=p)
        series = errors.value(p).only("v")
        cubed = series * symbol("v") * symbol("v") * symbol("v")
        of_series = relative_error(cubed, "v", "log(1+2*x)/2-x+x^2", self.all_f())
        return together(gappa.proved_relative(errors, p), of_series, ULP, ULP, ULP, ULP)

    def log_of(self, case: Case) -> tuple[Fraction, Fraction]:
        """Return the error of a logarithm but for that of v^3 P, and the sum of the other low parts; relative to it."""
        v, (whole, whole_low) = case
        function, (_, _, others) = self.function("float64_log"), self.series()
        errors = RoundingErrors(function, {"v": v, "whole": whole, "whole_low": whole_low}, until=others)
        sum_ = node(function.outputs["high"])
        ideal = (
            sum_of(whole, "whole") + symbol("v") - symbol("v") * symbol("v") + sum_of(whole_low, "whole_low")
        )
        value = errors.value(sum_) + errors.value(others)
        bound = proved_bound(errors, value, f"(n{sum_} + n{others})", ideal)
        # The addition of v^3 P rounds also for the others; whole_low is rounded twice, and the tables lack as much.
        bound += errors.range(others).magnitude * ULP
        bound += whole_low.range.magnitude * 4 * ULP
        if whole_low.range.magnitude:
            bound += (greatest_e(whole.range) + 1) * ENTRY
        # v^3 P is less than 2^-14 of the logarithm.
        log = errors.range(sum_).mignitude * (1 - Fraction(1, 1 << 14))
        demand(log > 0, "log x may be zero")
        cube = Fraction(3, 2) * v.range.magnitude**3
        size = errors.range(sum_).mignitude
        if whole.range.magnitude:
            demand(cube <= size / (1 << 14), "v^3 P is too great")
        return bound / log, errors.range(others).magnitude / log

    def t_of(self, low: Fraction) -> Fraction:
        """Return the error of t, for |t.low| up to `low`."""
        function = self.function("float64_t")
        last = function.nodes[node(function.outputs["low"])]
        count = sum(n.operation in ("fma", "mul", "add") for n in function.nodes)
        demand(last.operation in ("fma", "add") and count <= 30, "t has another form")
        of_log, others = self.log()
        of_cube = self.of_cube()
        # |2 y v^3 P|, from the low part less the others, what the product loses and y_low's share.
        rest = GREATEST_T * (others + 4 * ULP) * (1 + Fraction(1, 1 << 12))
        size = (low + rest) * (1 + Fraction(1, 1 << 30))
        # The low part is rounded in up to four operations; y_low times the low part is left out.
        rounded = 5 * ULP * size
        return of_cube * size + rounded + GREATEST_T * of_log * (1 + Fraction(1, 1 << 12)) + SUBNORMAL

    @once
    def high_remainders(self) -> str:
        ends = [Fraction(0), *(Fraction(2) ** i for i in range(-10, 10)), Fraction(GREATEST_T)]
        ranges = [some for low, high in itertools.pairwise(ends) for some in both_signs(low, high)]
        return f"up to {float(max(each(self.high_remainder, ranges))):.6f}"

    def steps_of(self, function: Function, t: Interval) -> tuple[int, Interval, Fraction]:
        """Return the node of n, its range, and the greatest |t - n ln(2)/256|, for a range of t.high."""
        step = tuple(end / STEPS for end in LN2)
        of_t = next(i for i, found in enumerate(function.nodes) if found.name == "t")
        steps_node = next(i for i, n in enumerate(function.nodes) if n.operation == "sub")
        magic = Constant(Fraction(3 << 51))
        place = node(function.nodes[steps_node].operands[0])
        demand(function.nodes[steps_node].operands[1] == magic, "n is found in another way")
        last = function.nodes[place]
        product = last if last.operation == "fma" else function.nodes[node(last.operands[0])]
        demand(last.operands[-1] == magic and product.operands[0] == of_t, "n is found in another way")
        rate = product.operands[1]
        demand(isinstance(rate, Constant), "n is found in another way")
        assert isinstance(rate, Constant)
        demand(abs(rate.value * step[0] - 1) <= 4 * ULP, "n is not t 256/ln 2")
        # n is the integer next to t rate, which may have been rounded.
        reach = t.magnitude * rate.value * (1 + ULP)
        n = Interval.within(reach + Fraction(1, 2) if reach >= Fraction(1, 2) else 0)
        rest = (Fraction(1, 2) + n.magnitude * 8 * ULP) * step[1]
        return steps_node, n, rest if n.magnitude else t.magnitude

    def high_remainder(self, t: Interval) -> Fraction:
        """Return the greatest high part of s, which is exact."""
        function = self.function("float64_remainder")
        steps_node, n, rest = self.steps_of(function, t)
        high = self.claim("float64_step.high")
        if not n.magnitude:
            return rest  # n is 0, and t.high - 0 is exact
        demand(t.mignitude > 0, "t may be zero")
        unit = min(floor_log2(t.mignitude) - 52, -61)
        demand(high % Fraction(1, 1 << 61) == 0, "the high part of ln(2)/256 is not a multiple of 2^-61")
        value = symbol("rest") + symbol("steps") * Polynomial.constant(high)
        errors = RoundingErrors(
            function,
            {
                "t": Input(t, unit, value),
                "t_low": Input(Interval.within(RANGES[0])),
                "correction": Input(Interval.within(ULP)),
            },
            cuts={steps_node: ("steps", Input(n, 0, symbol("steps")))},
            others={"rest": Input(Interval.within(rest), unit), "steps": Input(n, 0)},
        )
        demand(errors.value(function.outputs["high"]) == symbol("rest"), "t - n ln(2)/256 is rounded")
        return rest

    @once
    def low_remainder(self, low: Fraction) -> tuple[Fraction, Fraction]:
        """Return the error of the low part of s, and its maximum, for |t.low| up to `low`."""
        function = self.function("float64_remainder")
        steps_node, n, _ = self.steps_of(function, Interval.within(GREATEST_T))
        step, step_low = self.claim("float64_step.high"), self.claim("float64_step.low")
        lacking = max(abs(step + step_low - end / STEPS) for end in LN2)
        inputs = {
            "t": Input.constant(0),
            "t_low": Input(Interval.within(low)),
            "correction": Input(Interval.within(ULP)),
        }
        cuts: dict[Operand, tuple[str, Input]] = {steps_node: ("steps", Input(n, 0))}
        errors = RoundingErrors(function, inputs, cuts=cuts)
        low_node = node(function.outputs["low"])
        ideal = symbol("t_low") + symbol("correction") - symbol("steps") * Polynomial.constant(step_low)
        bound = proved_bound(errors, errors.value(low_node), f"n{low_node}", ideal)
        return bound + n.magnitude * lacking, errors.range(low_node).magnitude

    def power_within(self, low: Fraction, power: Interval) -> tuple[Fraction, Polynomial]:
        """Return the error of power (1 + s + s^2 Q(s)) relative to the power, with the roundings of the ends; and
        1 + s + s^2 Q(s)."""
        function = self.function("float64_power")
        s = next(
            n
            for n, found in enumerate(function.nodes)
            if found.operation == "add" and found.operands == (0, 1)
        )
        _, rest_low = self.low_remainder(low)
        greatest_rest = GREATEST_S - rest_low
        demand(LN2[1] / (2 * STEPS) * (1 + Fraction(1, 1 << 20)) <= greatest_rest, "s is too large")
        inputs = {
            "rest": Input(Interval.within(greatest_rest), -113),
            "rest_low": Input(Interval.within(rest_low)),
            "power": Input(power, -52),
        }
        errors = RoundingErrors(function, inputs, cuts={s: ("s", Input(Interval.within(GREATEST_S)))})
        value, expression, greatest_low, _ = self.pair(errors)
        slopes = errors.value(function.outputs["low"]).terms
        squares = Polynomial(
            {
                tuple(factor for factor in monomial if factor[0] != "power"): factor
                for monomial, factor in slopes.items()
                if {name for name, _ in monomial} == {"power", "s"}
            }
        )
        whole = Polynomial.constant(1) + symbol("rest") + symbol("rest_low") + squares
        bound = proved_bound(errors, value, expression, symbol("power") * whole)
        demand(greatest_low <= GREATEST_LOW_ON_GRID, "the power's low part is too large")
        # An end adds the error times the power; all of it is rounded once or, if not fused, twice.
        error = self.claim("float64_error") + self.claim("float64_error_of_low") * low
        bound += rounding_bound(greatest_low + 2 * error, single=False) + 2 * error * ULP
        return bound / power.least + 16 * SUBNORMAL, squares + symbol("s") + Polynomial.constant(1)

    def claims(self) -> str:
        self.high_remainders()
        eighths = [Interval.of(1 + Fraction(i, 8), 1 + Fraction(i + 1, 8)) for i in range(8)]
        bounds = each(lambda case: self.power_within(*case), itertools.product(RANGES, eighths))
        series = bounds[0][1]
        demand(all(found == series for _, found in bounds), "the series differ")
        demand(series.terms[(("s", 2),)] < Fraction(51, 100), "s^2 Q(s) grows faster")
        of_series = relative_error(series, "s", "exp(x)", Interval.within(GREATEST_S))
        # s is rounded where it is squared: s^2 Q(s) changes by less than 1.1 |s| times that.
        of_s = Fraction(11, 10) * GREATEST_S * rounding_bound(GREATEST_S, single=False)
        claimed, claimed_of_low = self.claim("float64_error"), self.claim("float64_error_of_low")
        rounding_error = self.function("float64_error_at")
        demand(
            rounding_error.nodes[node(rounding_error.outputs["error"])].operation in ("fma", "add"), "error"
        )
        slope = (self.t_of(Fraction(1)) - self.t_of(Fraction(0))) * E_TO_S
        room, least_margin = 1 - 8 * ULP, Fraction(2)
        for i, end in enumerate(RANGES):
            begin = RANGES[i - 1] if i else Fraction(0)
            of_power = max(bound for bound, _ in bounds[8 * i : 8 * i + 8])
            lost = together(of_series, self.t_of(begin) + self.low_remainder(end)[0], self.powers())
            error, allowed = of_power + of_s + E_TO_S * lost, (claimed + begin * claimed_of_low) * room
            demand(
                error <= allowed,
                f"for |t.low| up to {log2_text(end)} it is {log2_text(error)}, and {log2_text(allowed)} is claimed",
            )
            least_margin = min(least_margin, allowed / error)
        # Beyond, t is a pair.
        demand(slope <= claimed_of_low * room, f"the error is {log2_text(slope)} |t.low|")
        demand(self.claim("greatest_float64_low") <= RANGES[-1], "t.low may be greater")
        demand(self.claim("greatest_float64_t") + 1 <= GREATEST_T_IN_POWERS, "t may be greater")
        demand(self.claim("greatest_float64_t_on_grid") + 1 <= GREATEST_T, "t may be greater on a grid")
        greatest_error_on_grid = self.claim("greatest_float64_error_on_grid")
        demand(2 * greatest_error_on_grid <= GREATEST_ERROR_ON_GRID, "an error is too great on a grid")
        of_both = f"{log2_text(claimed)} + |t.low| {log2_text(claimed_of_low)}"
        return f"claimed {of_both}; all errors together are {float(1 / least_margin):.3f} of that"
