"""The double-double phase by quotients (core/numerics/pow_dd.h), with fused operations: how far its values may be from
the exact power.

Theorem. Let x be a positive finite normal double, y = y_high + y_low an exponent of the kernels, t = y log2 x,
|t| <= 1080. The value of exp2_dd(log2_dd(quotient_dd(x), y_high, y_low)) times 2^k is within quotient_error.at(t) 2^k
of x^y, and 2^-90 2^k is left for the roundings of the test that follows.

    s        s.high + s.low, of S = (m - 1)/(m + 1): for each binade of m - 1
    z        of (s.high + s.low)^2: for each binade of s
    P(z)     of P(z.high + z.low), which the identity expands: it shows what the plain tail and the short slope lack
    e + s P  of e + (s.high + s.low)(sum.high + sum.low): for each binade of s where e = 0, else of e
    t        of y times that; numbers of one binade stand for all, as a scaling by powers of two changes nothing
    2^t      r = t.high - k is exact; of Q(r) (1 + t.low ln 2), which 2^t.low differs from by (t.low ln 2)^2
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from proofs.bounds import LN2, demand, proved_bound, together
from proofs.compiled import output, program
from proofs.errors import Input, RoundingErrors, Rule
from proofs.fast import HALF, ROOT, ULP, binades_of_exponents, condition_of, last_operand_of_two, node
from proofs.interval import Interval, Polynomial, log2_text
from proofs.sollya import relative_error
from proofs.step import Step, each, once
from proofs.trace import Constant, Function, trace

GREATEST_T = 1080
GREATEST_S = Fraction(17157287525381, 10**14)
FOR_THE_TEST = Fraction(1, 1 << 90)  # what the rounding test's own roundings may add
GREATEST_LOW = Fraction(99, 100 << 37)  # of the low part of a power


def steps(core: Path) -> list[Step]:
    fused, not_fused = Quotients(core, "avx2"), Quotients(core, "scalar")
    return steps_of(fused, "fused") + steps_of(not_fused, "not fused")


def steps_of(phase: Quotients, name: str) -> list[Step]:
    return [
        Step(f"s = (m - 1)/(m + 1), {name}", lambda: log2_text(phase.quotient()[0]), quick=False),
        Step(f"P(s^2), {name}", lambda: log2_text(phase.series()[0]), quick=False),
        Step(f"log2 x by quotients, {name}", lambda: log2_text(phase.log2()[0]), quick=False),
        Step(f"t = y log2 x, {name}", lambda: log2_text(phase.t()[0]), quick=False),
        Step(f"2^t, {name}", phase.claim_of_power),
        Step(f"quotient_error, {name}", phase.claims, quick=False),
    ]


def symbol(name: str) -> Polynomial:
    return Polynomial.symbol(name)


def both_signs(least: Fraction, greatest: Fraction) -> list[Interval]:
    return [Interval(least, greatest), Interval(-greatest, -least)]


def binades_up_to(greatest: Fraction, least_exponent: int) -> list[Interval]:
    """The numbers from 2^least_exponent to `greatest`, and their negatives, in parts within a binade."""
    found, high = [], greatest
    while high > Fraction(2) ** least_exponent:
        low = Fraction(2) ** least_exponent
        while low * 2 < high:
            low *= 2
        found += both_signs(low, high)
        high = low
    return found


class Phase:
    """A phase as it is compiled for an instruction set."""

    def __init__(self, core: Path, instruction_set: str):
        self.core, self.instruction_set = core, instruction_set
        self.trace = trace("phases.cpp", core, instruction_set)

    def function(self, name: str) -> Function:
        return self.trace.functions[name]

    def claim(self, name: str) -> Fraction:
        return self.trace.constants[name]

    def pair(self, errors: RoundingErrors) -> tuple[Polynomial, str, Fraction, Interval]:
        """The sum of a function's two results, the same for Gappa, the low one's magnitude, the high one's range."""
        high, low = errors.function.outputs["high"], errors.function.outputs["low"]
        value = errors.value(high) + errors.value(low)
        return value, f"(n{high} + n{low})", errors.range(low).magnitude, errors.range(high)

    def bound(self, errors: RoundingErrors, ideal: Polynomial) -> Fraction:
        """How far the sum is from a polynomial in the inputs."""
        value, expression, _, _ = self.pair(errors)
        return proved_bound(errors, value, expression, ideal)

    def times(self, name: str, ratio: Fraction) -> tuple[Fraction, Fraction]:
        """y times a logarithm whose low part is up to `ratio` of the high one: the relative error, and the ratio of t.
        For y and the logarithm in [1, 2]: the other binades are the same but for signs and powers of two."""
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
        """The product for a y and a logarithm in ranges, and y."""
        function = self.function(name)
        inputs = {
            "log2": Input(log2, -52),
            "log2_low": Input(Interval.within(log2.magnitude * ratio)),
            "y": Input(y, -52),
            "y_low": Input(Interval.within(y.magnitude * ULP)),
        }
        made = function.made()
        if made:  # y clamped: the same, as it is at most 2^64
            inputs["y"] = Input(y, -52, symbol(f"made{made[0]}"))
        errors = RoundingErrors(function, inputs, [Input(y, -52)])
        return errors, symbol(f"made{made[0]}" if made else "y")


class Quotients(Phase):
    """By quotients."""

    @once
    def quotient(self) -> tuple[Fraction, Fraction]:
        """s, of (m - 1)/(m + 1), relatively; and how great s.low is beside s.high."""
        errors, ratios = zip(*each(self.quotient_of, binades_up_to(ROOT - 1, -53)), strict=True)
        return max(errors), max(ratios)

    def quotient_of(self, n: Interval) -> tuple[Fraction, Fraction]:
        """The same for a range of m - 1."""
        function = self.function("quotient_dd")
        if n.least < 1 / ROOT - 1:
            n = Interval(1 / ROOT - 1, n.greatest)
        m = Input(n + Interval.of(1, 1), -53, symbol("n") + Polynomial.constant(1))
        biased = Input(Interval.of(1 << 52, (1 << 52) + 4096), 0)
        errors = RoundingErrors(
            function, {"x": m}, [biased, m], others={"n": Input(n, -53)}, rules=reciprocal_rules(function)
        )
        value, expression, low, high = self.pair(errors)
        # (s.high + s.low) (m + 1) - (m - 1), of m - 1.
        plus_one = symbol("n") + Polynomial.constant(2)
        bound = proved_bound(errors, value * plus_one, f"{expression} * (n + 2)", symbol("n"))
        return bound / n.mignitude, low / high.mignitude

    @once
    def series(self) -> tuple[Fraction, Fraction, Interval, Polynomial]:
        """P, of log2(m)/s: the relative error by its coefficients and by rounding; how great sum.low is beside
        sum.high; the latter's range; and s P."""
        _, s_ratio = self.quotient()
        squared = self.function("squared")
        error_of_z = z_ratio = Fraction(0)
        for s in binades_up_to(GREATEST_S, -55):
            low = s.magnitude * s_ratio
            errors = RoundingErrors(squared, {"s": Input(s), "s_low": Input(Interval.within(low))})
            whole = symbol("s") + symbol("s_low")
            error_of_z = max(error_of_z, self.bound(errors, whole * whole) / s.mignitude**2)
            _, _, z_low, z_high = self.pair(errors)
            z_ratio = max(z_ratio, z_low / z_high.mignitude)
        greatest_z = GREATEST_S**2 * (1 + 8 * ULP)
        inputs = {
            "z": Input(Interval(Fraction(0), greatest_z)),
            "z_low": Input(Interval.within(greatest_z * z_ratio)),
        }
        errors = RoundingErrors(self.function("log2_series"), inputs)
        value, _, low, high = self.pair(errors)
        polynomial = value.only("z")
        bound = self.bound(errors, polynomial.with_value("z", symbol("z") + symbol("z_low")))
        of_z = error_of_z * greatest_z * derivative_bound(polynomial, greatest_z) / high.mignitude
        odd = polynomial.with_value("z", symbol("s") * symbol("s")) * symbol("s")
        of_series = relative_error(odd, "s", "log2((1+x)/(1-x))", Interval.within(GREATEST_S))
        return together(of_series, bound / high.mignitude, of_z), low / high.mignitude, high, odd

    @once
    def log2(self) -> tuple[Fraction, Fraction]:
        """log2 x, relatively; and how great its low part is beside the high one."""
        near_one = each(self.log2_near_one, binades_up_to(GREATEST_S, -55))
        others = each(self.log2_of_exponents, binades_of_exponents())
        errors, ratios = zip(*near_one, *others, strict=True)
        return max(errors), max(ratios)

    def log2_near_one(self, s: Interval) -> tuple[Fraction, Fraction]:
        """The same where e = 0, for a range of s."""
        _, s_ratio = self.quotient()
        _, sum_ratio, sum_range, _ = self.series()
        errors, ideal = self.log2_sum(s, Input.constant(0))
        least = s.mignitude * sum_range.mignitude * (1 - s_ratio) * (1 - sum_ratio)
        _, _, low, high = self.pair(errors)
        return together(self.of_log2_m(), self.bound(errors, ideal) / least), low / high.mignitude

    def log2_of_exponents(self, e: Interval) -> tuple[Fraction, Fraction]:
        """The same for a range of e without zero."""
        reach = self.inner_s() if e.magnitude == 1 else GREATEST_S
        errors, ideal = self.log2_sum(Interval.within(reach), Input(e, 0))
        least = e.mignitude - HALF
        _, _, low, _ = self.pair(errors)
        error = (self.bound(errors, ideal + symbol("e")) + HALF * self.of_log2_m()) / least
        return error, low / (least * (1 - ULP))

    def of_log2_m(self) -> Fraction:
        """s P(s^2), of log2 m, relatively, but for the sum's roundings."""
        of_series, _, _, odd = self.series()
        return together(of_series, self.quotient()[0] * condition_of(odd, GREATEST_S))

    def log2_sum(self, s: Interval, e: Input) -> tuple[RoundingErrors, Polynomial]:
        """The sum, and s P(s^2) without roundings."""
        s_ratio = self.quotient()[1]
        _, sum_ratio, sum_range, _ = self.series()
        inputs = {
            "s": Input(s),
            "s_low": Input(Interval.within(s.magnitude * s_ratio)),
            "sum": Input(sum_range),
            "sum_low": Input(Interval.within(sum_range.magnitude * sum_ratio)),
            "e": e,
        }
        ideal = (symbol("s") + symbol("s_low")) * (symbol("sum") + symbol("sum_low"))
        return RoundingErrors(self.function("log2_sum"), inputs), ideal

    @once
    def inner_s(self) -> Fraction:
        """Beyond this size of s, which is next to the ends of [sqrt(1/2), sqrt 2), a program has looked at every m: for
        e = 1 and -1 the difference in log2_sum is exact there, too."""
        told = output(program("edges.cpp", self.core, self.instruction_set)).split()
        ends = [Fraction(float.fromhex(m)) for m in told]
        demand(len(ends) == 2, "the ends have not been looked at")
        return max(abs((m - 1) / (m + 1)) for m in ends) * (1 + 8 * ULP)

    @once
    def t(self) -> tuple[Fraction, Fraction]:
        of_log2, ratio = self.log2()
        of_product, t_ratio = self.times("times", ratio)
        demand(
            t_ratio * GREATEST_T < self.claim("greatest_t_low"), "t.low may be greater than greatest_t_low"
        )
        return together(of_log2, of_product), t_ratio

    @once
    def exp2(self) -> Fraction:
        """The value, of 2^(t - k)."""
        function = self.function("exp2_dd")
        high, low = node(function.outputs["high"]), node(function.outputs["low"])
        r = last_operand_of_two(function, function.looked_at[-1])
        for t in both_signs(HALF, Fraction(GREATEST_T)):
            reduction = RoundingErrors(function, {"t": Input(t), "t_low": Input.constant(0)}, until=r)
            demand(r in reduction.exact, "t - k is not exact")
            demand(reduction.values[r].range(reduction.symbols).magnitude <= HALF, "|t - k| > 1/2")
        low_t = self.claim("greatest_t_low")
        inputs = {"t": Input(Interval.within(GREATEST_T)), "t_low": Input(Interval.within(low_t))}
        errors = RoundingErrors(
            function, inputs, cuts={r: ("r", Input(Interval.within(HALF)))}, until=max(high, low)
        )
        value, _, greatest_low, high_range = self.pair(errors)
        demand(greatest_low <= GREATEST_LOW, "the power's low part is too great")
        series = value.only("r")
        ln2 = factor_of_low(function, node(function.outputs["low"]))
        bound = self.bound(
            errors, series * (Polynomial.constant(1) + symbol("t_low") * Polynomial.constant(ln2))
        )
        of_series = relative_error(series, "r", "2^x", Interval.within(HALF))
        of_low = low_t * max(abs(ln2 - end) for end in LN2) + (low_t * LN2[1]) ** 2
        return together(of_series, of_low, bound / high_range.mignitude)

    def claim_of_power(self) -> str:
        proved, claimed = ROOT * self.exp2() + FOR_THE_TEST, self.claim("quotient_error.fixed")
        demand(proved <= claimed, f"the error is {log2_text(proved)}, and {log2_text(claimed)} is claimed")
        return f"{log2_text(proved)}, claimed {log2_text(claimed)}"

    def claims(self) -> str:
        fixed, of_t = self.claim("quotient_error.fixed"), self.claim("quotient_error.of_t")
        # 2^(t - k) is at most sqrt 2.
        return check_claims(ROOT, self.exp2(), self.t()[0], fixed, of_t)


def check_claims(
    greatest: Fraction, of_power: Fraction, of_t: Fraction, fixed: Fraction, times_t: Fraction
) -> str:
    """That fixed + |t| times_t bounds the error of a value of at most `greatest`, for the relative errors given."""

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
    """The constant that t.low is multiplied by, on the way to a node."""
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


def derivative_bound(polynomial: Polynomial, greatest: Fraction) -> Fraction:
    """Of a polynomial in one symbol, up to `greatest`."""
    terms = {sum(power for _, power in m): c for m, c in polynomial.terms.items()}
    return sum((power * abs(c) * greatest ** (power - 1) for power, c in terms.items() if power), Fraction(0))


def reciprocal_rules(function: Function) -> list[Rule]:
    """q = fl(1 / b) with b = fl(2 + n) = 2 + n + d: q b = 1 + r, so q n = 1 + r - 2 q - d q; times n, and times the
    error of s."""
    (i,) = (i for i, found in enumerate(function.nodes) if found.operation == "div")
    b = node(function.nodes[i].operands[1])
    n, q, r, d = symbol("n"), symbol(f"q{i}"), symbol(f"r{i}"), symbol(f"d{b}")
    product = Polynomial.constant(1) + r - q - q - d * q
    error = f"d{node(function.outputs['high'])}"
    return [
        Rule((("n", 2), (f"q{i}", 1)), n * product),
        Rule(((error, 1), ("n", 1), (f"q{i}", 1)), symbol(error) * product),
    ]
