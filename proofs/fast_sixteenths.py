"""The fast phase of float64 with AVX-512 (core/numerics/pow_fast_sixteenths.h): x^y is within its claim.

Theorem. Let x be a positive normal double, y = y_high + y_low an exponent of the kernels, t = y log(x)/2, |t| <= 353.
The ends high + (low - error) and high + (low + error), before the last addition of each is rounded, are not above and
not below x^y 2^-k. Real vectors compute each lane as doubles are computed.

    x = m 2^e   part j of 16 has m from 1 + (32 j - 11)/512 to 1 + (32 j + 21)/512, and part 0 from 1 - 11/1024:
                programs/splits.cpp tests both ends of each
    tables      - log(r)/2, ln(2)/2 and 2^(i/16), each entry against the function
    v           (m r - 1)/2, exact, and so is the high part of e ln(2)/2 - log(r)/2: for each part
    log(x)/2    whole + whole_low + v - v^2 + v^3 P(v). The error of v^3 P is proportional to v^3, and that of
                the other operations to log x: where it is v, for each binade of v; where it is near zero, for
                each part; elsewhere for each binade of whole
    t           y times that
    s           t - k ln(2)/32: `steps`, a cut, is the integer k. The high part is exact, for each binade of t.high
    x^y 2^-k    2^(i/16) (1 + 2 (s + s^2 + s^3 Q(s))), for each i
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
from proofs.interval import Interval, Polynomial, log2_text
from proofs.logarithm_tables import Case, NaturalLogarithms, sum_of
from proofs.phase import both_signs, symbol
from proofs.sollya import greatest_error, relative_error
from proofs.step import Step, each, once
from proofs.trace import Constant

PARTS = 16
GREATEST_T = 353
GREATEST_POWER = Fraction(1958, 1000)  # more than 2^(31/32)
GREATEST_S = Fraction(1084, 100000)
GREATEST_REST_LOW = Fraction(1, 1 << 40)
ENTRY = Fraction(1, 1 << 97)  # more than what a table's entry and ln 2 lack


def steps(core: Path) -> list[Step]:
    phase = Sixteenths(core)
    return [
        Step("x = m 2^e in sixteenths", lambda: output(program("splits.cpp", core), "sixteenths").strip()),
        Step("the table of half logarithms", lambda: log2_text(phase.logarithms())),
        Step("the table of sixteenths' powers", lambda: log2_text(phase.powers())),
        Step("v = (m r - 1)/2 is exact", phase.range_of_f),
        Step("what v^3 P loses", lambda: f"{log2_text(phase.of_cube())} |v^3|"),
        Step("log(x)/2 without that", lambda: log2_text(phase.log()[0])),
        Step("s = t - k ln(2)/32", lambda: log2_text(phase.remainder())),
        Step("x^y 2^-k of s", lambda: log2_text(phase.power()[0])),
        Step("sixteenths_error", phase.claims),
        Step("its ends as doubles, which become floats", phase.ends),
    ]


class Sixteenths(NaturalLogarithms):
    """The phase, whose logarithms are halved; its operations are those of doubles with fused operations.

    The errors of logarithms and of t do not include that of v^3 P.
    """

    begin_name, log_name, unit = "begin_half_log", "half_log", 1 << 52  # e is multiplied by the unit
    parts, whole_granularity = PARTS, -44
    far_from_one, greatest_whole = Fraction(1, 16), Fraction(512)
    # ln(2)/2 less its high part, and - log(r)/2 less its: below 2^-45, times 1024.
    greatest_low = Fraction(1, 1 << 35)

    def __init__(self, core: Path):
        super().__init__(core, "avx2")

    @once
    def entry(self, j: int) -> tuple[Fraction, Fraction, Fraction]:
        function = self.function(f"{self.begin_name}.{j}")
        v, *wholes = (function.nodes[node(function.outputs[name])] for name in ("v", "whole", "whole_low"))
        is_known = all(found.operation == "fma" for found in (v, *wholes))
        demand(is_known and v.operands[2] == Constant(Fraction(-1, 2)), f"part {j} begins in another way")
        r, high, low = (
            o.value for o in (v.operands[1], *(w.operands[2] for w in wholes)) if isinstance(o, Constant)
        )
        return r, high, low

    @once
    def ln2(self) -> tuple[Fraction, Fraction]:
        function = self.function(f"{self.begin_name}.1")
        wholes = (function.nodes[node(function.outputs[name])] for name in ("whole", "whole_low"))
        high, low = (o.value * self.unit for w in wholes for o in w.operands[1:2] if isinstance(o, Constant))
        demand(max(abs(high + low - end / 2) for end in LN2) <= ENTRY, "ln(2)/2 is wrong")
        return high, low

    @once
    def logarithms(self) -> Fraction:
        """Return the error of the table of - log(r)/2."""
        entries = [self.entry(j) for j in range(self.parts)]
        worst = max(greatest_error("-log(2*x)/2", r, high + low) for r, high, low in entries)
        demand(worst <= ENTRY, f"an entry is {log2_text(worst)} off")
        return worst

    def entry_of_power(self, i: int) -> tuple[Fraction, Fraction]:
        return self.claim(f"half_exp_power.{i}"), self.claim(f"half_exp_correction.{i}") / 2

    @once
    def powers(self) -> Fraction:
        """Return the relative error of the table of 2^(i/16), with its corrections in the exponent."""
        entries = [self.entry_of_power(i) for i in range(PARTS)]
        demand(all(abs(lost) <= ULP / 2 for _, lost in entries), "a correction is too large")
        # e^(2 lost) is 1 + 2 lost, but for twice its square.
        return max(
            greatest_error("2^x", Fraction(i, PARTS), power * (1 + 2 * lost)) / power + 3 * lost**2
            for i, (power, lost) in enumerate(entries)
        )

    @once
    def fs(self, j: int) -> list[Input]:
        """Return v, which is f/2, of part j. It is exact, and so is the high part of e ln(2)/2 - log(r)/2."""
        low, high = 1 + Fraction(32 * j - 11, 512), 1 + Fraction(32 * j + 21, 512) - 2 * ULP
        ms = [Input(Interval(low, high), -52)]
        if j == 0:
            ms = [
                Input(Interval(1 - Fraction(11, 1024), 1 - ULP), -53),
                Input(Interval(Fraction(1), high), -52),
            ]
        function, found = self.function(f"begin_half_log.{j}"), []
        v, whole = (node(function.outputs[name]) for name in ("v", "whole"))
        r, part, _ = self.entry(j)
        for m in ms:
            errors = RoundingErrors(
                function, {"m": m, "scale": Input(Interval.of(-1023 << 52, 1023 << 52), 52)}
            )
            ideal = symbol("m") * Polynomial.constant(r) - Polynomial.constant(Fraction(1, 2))
            demand(errors.value(v) == ideal, f"v is rounded in part {j}")
            sum_ = symbol("scale") * Polynomial.constant(self.ln2()[0] / (1 << 52)) + Polynomial.constant(
                part
            )
            demand(errors.value(whole) == sum_, f"e ln(2)/2 - log(r)/2 is rounded in part {j}")
            found.append(Input(errors.range(v), errors.granularity(v)))
        return found

    def series(self) -> tuple[int, int, int]:
        """Return the nodes of v^3, P and the sum of the other low parts, of which v^3 P + the sum is the low part."""
        function = self.function("half_log")
        total = function.nodes[node(function.outputs["high"])]
        low = function.nodes[node(total.operands[1])]
        demand(low.operation == "fma", "the low part is found in another way")
        cube, p, others = map(node, low.operands)
        square = next(
            i for i, n in enumerate(function.nodes) if n.operation == "mul" and n.operands == (0, 0)
        )
        demand(function.nodes[cube].operands == (square, 0) and function.nodes[0].name == "v", "not v^3")
        return cube, p, others

    @once
    def of_cube(self) -> Fraction:
        """Return what v^3 P loses, with the addition of its product, by |v^3|."""
        _, p, _ = self.series()
        given = {"v": Input(self.all_f()), "whole": Input.constant(0), "whole_low": Input.constant(0)}
        errors = RoundingErrors(self.function("half_log"), given, until=p)
        series = errors.value(p).only("v")
        cubed = series * symbol("v") * symbol("v") * symbol("v")
        of_series = relative_error(cubed, "v", "log(1+2*x)/2-x+x^2", self.all_f())
        lost = together(gappa.proved_relative(errors, p), of_series, ULP, ULP, ULP)
        return series.range({"v": self.all_f()}).magnitude * (1 + of_series) * lost

    def log_of(self, case: Case) -> tuple[Fraction, Fraction]:
        v, (whole, whole_low) = case
        function, (_, _, others) = self.function("half_log"), self.series()
        given = {"v": v, "whole": whole, "whole_low": whole_low}
        errors = RoundingErrors(function, given)
        sum_ = function.nodes[node(function.outputs["high"])].operands[0]
        ideal = (
            sum_of(whole, "whole") + symbol("v") - symbol("v") * symbol("v") + sum_of(whole_low, "whole_low")
        )
        bound = proved_bound(
            errors, errors.value(sum_) + errors.value(others), f"(n{sum_} + n{others})", ideal
        )
        # The addition of v^3 P rounds also for the others; whole_low is rounded, and the tables lack as much.
        bound += errors.range(others).magnitude * ULP
        bound += whole_low.range.magnitude * 2 * ULP + (1100 * ENTRY if whole_low.range.magnitude else 0)
        high, low = node(function.outputs["high"]), node(function.outputs["low"])
        demand(low in errors.exact, "the last sum is not exact")
        log = errors.range(high)
        demand(log.mignitude > 0, "log x may be zero")
        # High and low part together; the terms left out are less than 2^-40 of it.
        return bound / log.mignitude * (1 + Fraction(1, 1 << 40)), errors.range(low).magnitude / log.mignitude

    @once
    def remainder(self) -> Fraction:
        """Return the error of s as t - k ln(2)/32."""
        ends = [Fraction(0), *(Fraction(2) ** i for i in range(-8, 9)), Fraction(GREATEST_T)]
        ranges = [some for low, high in itertools.pairwise(ends) for some in both_signs(low, high)]
        return max(each(self.remainder_of, ranges))

    def remainder_of(self, t: Interval) -> Fraction:
        function = self.function("half_exp_remainder")
        high, low = self.claim("half_exp_step.high"), self.claim("half_exp_step.low")
        step = tuple(end / (2 * PARTS) for end in LN2)
        lacking = max(abs(high + low - end) for end in step)
        place = next(i for i, n in enumerate(function.nodes) if n.operation == "fma")
        steps_node = next(i for i, n in enumerate(function.nodes) if n.operation == "sub")
        magic, (of_t, rate, added) = Constant(Fraction(3 << 51)), function.nodes[place].operands
        is_known = function.nodes[steps_node].operands == (place, magic) and added == magic and of_t == 0
        demand(is_known and isinstance(rate, Constant), "k is found in another way")
        assert isinstance(rate, Constant)
        demand(abs(rate.value * step[0] - 1) <= 4 * ULP, "k is not t 32/ln 2")
        # k is the integer next to t rate.
        reach = t.magnitude * rate.value
        k = Interval.within(reach + Fraction(1, 2) if reach >= Fraction(1, 2) else 0)
        rest = (Fraction(1, 2) + k.magnitude * 8 * ULP) * step[1]
        demand(
            max(rest, t.magnitude if not k.magnitude else 0) <= GREATEST_S - GREATEST_REST_LOW,
            "s is too large",
        )
        inputs = {
            "t": Input(t, -59, symbol("rest") + symbol("steps") * Polynomial.constant(high)),
            "t_low": Input(Interval.within(t.magnitude * self.t()[1])),
            "correction": Input(Interval.within(ULP / 2)),
        }
        others = {"rest": Input(Interval.within(rest), -59), "steps": Input(k, 0)}
        cut = Input(k, 0, symbol("steps"))
        if not k.magnitude:  # s is t
            inputs["t"], others, cut = Input(t), {}, Input.constant(0)
        errors = RoundingErrors(function, inputs, cuts={steps_node: ("steps", cut)}, others=others)
        value, expression, rest_low, _ = self.pair(errors)
        demand(rest_low <= GREATEST_REST_LOW, "the low part of s is too large")
        ideal = symbol("t_low") + symbol("correction")
        if k.magnitude:
            demand(t.mignitude >= Fraction(1, 1 << 7), "t may not be a multiple of 2^-59")
            demand(high % Fraction(1, 1 << 58) == 0, "the high part of ln(2)/32 is not a multiple of 2^-58")
            ideal += symbol("rest") - symbol("steps") * Polynomial.constant(low)
            demand(errors.value(function.outputs["high"]) == symbol("rest"), "t - k ln(2)/32 is rounded")
        else:
            ideal += symbol("t")
        return proved_bound(errors, value, expression, ideal) + k.magnitude * lacking

    @once
    def power(self) -> tuple[Fraction, Polynomial, Fraction]:
        """Return the error of 2^(i/16) times the series, the series 1 + 2 (s + s^2 + s^3 Q(s)), and low's maximum."""
        errors, series, lows = zip(*each(self.power_of, range(PARTS)), strict=True)
        demand(all(found == series[0] for found in series), "the series differ")
        return max(errors), series[0], max(lows)

    def power_of(self, i: int) -> tuple[Fraction, Polynomial, Fraction]:
        function, entry = self.function(f"half_exp.{i}"), self.entry_of_power(i)[0]
        s = next(n for n, found in enumerate(function.nodes) if found.operation == "add")
        demand(function.nodes[s].operands == (0, 1), "s is not the sum of its parts")
        rest = Input(Interval.within(GREATEST_S), -112)
        low = Input(Interval.within(GREATEST_REST_LOW))
        errors = RoundingErrors(
            function, {"rest": rest, "rest_low": low}, cuts={s: ("s", Input(Interval.within(GREATEST_S)))}
        )
        value, expression, greatest_low, _ = self.pair(errors)
        squares = errors.value(function.outputs["low"]).only("s")
        squares = squares - Polynomial.constant(squares.terms.get((), Fraction(0)))
        whole = Polynomial.constant(entry)
        ideal = whole + (symbol("rest") + symbol("rest_low")) * Polynomial.constant(2 * entry) + squares
        bound = proved_bound(errors, value, expression, ideal)
        series = squares * Polynomial.constant(1 / entry) + symbol("s") * Polynomial.constant(2)
        return bound, series + Polynomial.constant(1), greatest_low

    def claims(self) -> str:
        bound, series, low = self.power()
        of_series = relative_error(series, "s", "exp(2*x)", Interval.within(GREATEST_S))
        # s is rounded where it is squared: 2 (s^2 + s^3 Q(s)) changes by less than 4.1 |s| times that.
        demand(abs(series.terms[(("s", 3),)]) < Fraction(3, 2), "s^3 Q(s) grows faster")
        of_s = Fraction(41, 10) * GREATEST_S * rounding_bound(GREATEST_S, single=False)
        fixed = bound + GREATEST_POWER * (of_series + of_s)
        fixed += GREATEST_POWER * (2 * self.remainder() + self.powers()) * (1 + ULP)
        of_t, of_cube = self.t()[0], self.of_cube()
        fixed += GREATEST_POWER * 3 * of_t * GREATEST_T
        claimed, claimed_of_cube = self.claim("sixteenths_error"), self.claim("sixteenths_error_of_cube")
        # low -+ error is rounded; and so is the error itself, in five operations.
        fixed += rounding_bound(low + 2 * claimed, single=False)
        times_cube = GREATEST_POWER * 2 * of_cube * (1 + ULP) + claimed_of_cube * 2 * ULP
        room = 1 - 8 * ULP
        demand(
            fixed <= claimed * room, f"the error is {log2_text(fixed)}, and {log2_text(claimed)} is claimed"
        )
        # e^2d is 1 + 2 d, but for 2 d^2 and more; where these matter, no power is decided.
        demand(
            times_cube * (1 + Fraction(1, 1 << 40)) <= claimed_of_cube * room,
            f"the error is {log2_text(times_cube)} |y v^3|, and {log2_text(claimed_of_cube)} is claimed",
        )
        proved = f"{log2_text(fixed)} + |y v^3| {log2_text(times_cube)}"
        return f"{proved}, claimed {log2_text(claimed)} + |y v^3| {log2_text(claimed_of_cube)}"

    def ends(self) -> str:
        """Prove that the ends high + (low -+ error), rounded to doubles, still have the exact value between them.

        Rounding to floats is monotone: if both ends become the same float, so does the exact value.
        """
        farther = self.claim("sixteenths_error_of_ends")
        error = self.claim("sixteenths_error") + farther
        low = self.power()[2]
        rounded = (GREATEST_POWER, low + 2 * error, error)
        lost = sum((rounding_bound(value, single=False) for value in rounded), Fraction(0))
        demand(
            lost <= farther, f"the ends lose {log2_text(lost)}, and are {log2_text(farther)} farther apart"
        )
        return f"{log2_text(lost)} of {log2_text(farther)}"
