"""The phase of one float32 (core/numerics/pow_fast_float32.h), with and without fused operations and in each rounding
mode: its value is within float32_error of x^y, relative to it.

Theorem. Let x be a positive normal float, y a finite float, and n = float32_place(t) within the range of
is_float32_place. Then the value v of float32_power has |v / x^y - 1| <= float32_error, whichever way each operation
rounds to one of the two doubles next to its result; round_float32_power decides only where no boundary between floats
is that near.

    x = m 2^e   part j of 128 has m from 1 + (2 j - 1)/256 to 1 + (2 j + 1)/256, and part 0 from 1 - 1/512:
                programs/splits.cpp tests them
    tables      - 256 log2 r and 2^(i/256), each entry against the function
    f           m r - 1, exact, for each part
    log2 x      whole + f P(f), whole = 256 e - 256 log2 r: f P(f) by Gappa, relative; P by Sollya. Where whole is not
                zero, its error and that of the sum are relative to the logarithm, for the part's least
    t           rounded once; |t| < 127 * 256 + 1
    s           t - n: n = t + round_magic - round_magic is an integer next to t, since round_magic + t is at least 2^52
                and below 2^53. The difference is a multiple of t's last place and |s| <= 1. It is exact if |t| >= 1,
                and otherwise rounded by at most 2^-53
    v           2^(n/256) (1 + s Q(s)): for 1 <= 2^(n/256) <= 2 by Gappa; other powers differ by a power of two, and no
                product that counts is subnormal
    rounding    programs/round_float32.cpp: a distance up to float32_error 2^53 units is not decided, and a unit is at
                least 2^-53 of the value
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from proofs import gappa
from proofs.bounds import LN2, demand, proved_bound, together
from proofs.compiled import output, program
from proofs.errors import Input, RoundingErrors
from proofs.fast import ULP, node
from proofs.gappa import ROUNDINGS
from proofs.interval import Interval, Polynomial, log2_text
from proofs.phase import Phase, both_signs, symbol
from proofs.sollya import greatest_error, relative_error
from proofs.step import Step, each, once
from proofs.trace import Constant

PARTS, POWERS = 128, 256
GREATEST_T = 127 + Fraction(1, POWERS)  # of y log2 x
LEAST_F = Fraction(1, 1 << 36)  # other than zero: m is a multiple of 2^-24, and r of 2^-12
ANY = 2 * ULP  # what an operation rounds by, in any mode


def steps(core: Path) -> list[Step]:
    fused, not_fused = Float32(core, "avx2"), Float32(core, "scalar")
    return [
        Step("x = m 2^e in parts for float32", lambda: output(program("splits.cpp", core), "one").strip()),
        Step("float32's table of logarithms", lambda: log2_text(max(fused.logarithms()))),
        Step("float32's table of powers", lambda: log2_text(fused.powers())),
        *steps_of(fused, "fused"),
        *steps_of(not_fused, "not fused"),
        Step("rounding by integers", lambda: output(program("round_float32.cpp", core)).strip()),
    ]


def steps_of(phase: Float32, name: str) -> list[Step]:
    return [
        Step(f"f = m r - 1 is exact for float32, {name}", phase.range_of_f),
        Step(f"f P(f) in each rounding mode, {name}", lambda: log2_text(phase.product())),
        Step(f"256 log2 x in each rounding mode, {name}", lambda: log2_text(phase.log())),
        Step(f"2^(t/256) in each rounding mode, {name}", lambda: log2_text(phase.power())),
        Step(f"float32_error, {name}", phase.claims),
    ]


class Float32(Phase):
    """The phase, compiled for an instruction set."""

    def entry(self, j: int) -> tuple[Fraction, Fraction]:
        """Return r, and -256 log2 r as the table has it."""
        return self.claim(f"float32_r.{j}"), self.claim(f"float32_log2.{j}")

    @once
    def logarithms(self) -> list[Fraction]:
        """Return the error of each entry."""
        return [greatest_error("-256*log2(x)", *self.entry(j)) for j in range(PARTS)]

    @once
    def powers(self) -> Fraction:
        """Return the relative error of the table of 2^(i/256)."""
        return max(
            greatest_error("2^x", Fraction(i, POWERS), self.claim(f"float32_power.{i}"))
            for i in range(POWERS)
        )

    @once
    def fs(self, j: int) -> Interval:
        """Return the range of f of part j, where it is exact."""
        least = 1 - Fraction(1, 4 * PARTS) if j == 0 else 1 + Fraction(2 * j - 1, 2 * PARTS)
        m = Interval(least, 1 + Fraction(2 * j + 1, 2 * PARTS))
        function, r = self.function(f"begin_float32_log.{j}"), Constant(self.entry(j)[0])
        operations = [(found.operation, found.operands) for found in function.nodes]
        minus_one = Constant(Fraction(-1))
        fused = [("from_bits", ()), ("fma", (0, r, minus_one))]
        not_fused = [("from_bits", ()), ("mul", (0, r)), ("add", (1, minus_one))]
        demand(operations in (fused, not_fused), f"f is not m r - 1 in part {j}")
        # m r is a multiple of 2^-36 below 2, and so is its difference from 1.
        demand(r.value * (1 << 12) % 1 == 0 and r.value <= 1, f"r of part {j} has too many bits")
        return m * Interval(r.value, r.value) + Interval.of(-1, -1)

    @once
    def all_f(self) -> Interval:
        ranges = [self.fs(j) for j in range(PARTS)]
        return Interval(min(f.least for f in ranges), max(f.greatest for f in ranges))

    def range_of_f(self) -> str:
        return f"from {float(self.all_f().least):.5f} to {float(self.all_f().greatest):.5f}"

    @once
    def product(self) -> Fraction:
        """Return the relative error of f P(f) as 256 log2(1 + f)."""
        function = self.function("float32_log2")
        result = node(function.outputs["log2"])

        def rounding_of(case: tuple[Interval, str]) -> Fraction:
            errors = RoundingErrors(function, {"f": Input(case[0]), "whole": Input.constant(0)})
            return gappa.proved_relative(errors, result, case[1])

        ranges = both_signs(LEAST_F, self.all_f().magnitude)
        rounding = max(each(rounding_of, [(f, mode) for f in ranges for mode in ROUNDINGS]))
        errors = RoundingErrors(function, {"f": Input(ranges[0]), "whole": Input.constant(0)})
        series = errors.value(result).only("f")
        return together(rounding, relative_error(series, "f", "256*log2(1+x)", self.all_f()))

    @once
    def log(self) -> Fraction:
        """Return the relative error of 256 log2 x."""
        of_product, worst = self.product(), self.product()  # of f P(f) alone
        for j, of_entry in enumerate(self.logarithms()):
            _, minus_log2_r = self.entry(j)
            f = self.fs(j).magnitude
            product = POWERS * f / (LN2[0] * (1 - f))  # more than 256 |log2(1 + f)|
            for e in (0, -1):  # the least |whole| of all e
                whole = abs(minus_log2_r + e * POWERS)
                if whole == 0:
                    continue
                demand(whole > product, "f P(f) may be greater than the whole")
                least = whole - product
                # Of the entry; of the sums with the exponent and with f P(f), whose results are below twice these.
                lost = of_entry + ANY * whole + of_product * product + ANY * (whole + product) * (1 + ANY)
                worst = max(worst, lost / least)
        return worst

    @once
    def power(self) -> Fraction:
        """Return the relative error of the value as 2^(t/256)."""
        function = self.function("float32_power")
        (s,) = (
            i for i, found in enumerate(function.nodes) if found.operation == "sub" and found.operands[0] == 0
        )
        result = node(function.outputs["power"])

        def errors() -> RoundingErrors:
            inputs = {"t": Input(Interval.within(GREATEST_T * POWERS)), "whole": Input(Interval.of(1, 2))}
            return RoundingErrors(function, inputs, cuts={s: ("s", Input(Interval.of(-1, 1)))})

        value = errors().value(result)
        ideal = Polynomial(
            {m: c for m, c in value.terms.items() if {name for name, _ in m} <= {"s", "whole"}}
        )
        bound = max(proved_bound(errors(), value, f"n{result}", ideal, mode) for mode in ROUNDINGS)
        series = Polynomial(
            {tuple((name, power) for name, power in m if name == "s"): c for m, c in ideal.terms.items()}
        )
        demand(series * symbol("whole") == ideal, "the value is not 2^(n/256) times a series")
        of_series = relative_error(series, "s", f"2^(x/{POWERS})", Interval.of(-1, 1))
        # s may be rounded by 2^-53, which changes 2^(s/256) by less.
        return together(bound / (1 - Fraction(1, 100)), of_series, self.powers(), ULP)

    def claims(self) -> str:
        of_t = together(self.log(), ANY)
        exponent = of_t * GREATEST_T * LN2[1]
        error = together(self.power(), exponent * (1 + exponent))  # e^a - 1 <= a + a^2, where a < 1
        claimed = self.claim("float32_error")
        demand(error * (1 + error) <= claimed, f"the error is {log2_text(error)}")
        return f"{log2_text(error)}, claimed {log2_text(claimed)}"
