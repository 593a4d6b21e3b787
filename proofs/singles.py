"""The error of the first phase of float16 and bfloat16, in single floats (core/kernels/float/single.h).

Theorem. Let x be a positive finite base of one of these types, x >= 2^-125, y a finite float and t = y log2 x, |t| <=
160. Then the value of the phase, or its lower end divided by the factor of the interval, is within a relative
single_error + |t| single_error_of_t of x^y.

    log2 x      the kernel's logarithm of each of the bases, against Sollya's: of finite sets no formula is needed
    t           s = y l - k/8 for the logarithm l that was computed: one fused operation, |s| <= 1/16, rounded once
    2^t         2^(j/8) Q(s), j = 0 to 7: Q by Sollya, its rounding errors from the sizes of its terms, 2^(j/8) from the
                table. Scaling by a power of two is exact for normal floats
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import gmpy2  # type: ignore[import-untyped]

from proofs.bounds import LN2, demand, together
from proofs.compiled import output, program
from proofs.interval import Interval, Polynomial, ceil_log2, log2_text
from proofs.sollya import greatest_error, relative_error
from proofs.step import Step, once

GREATEST_T = 160
GREATEST_REST = Fraction(1, 16)
ULP = Fraction(1, 1 << 24)


def steps(core: Path) -> list[Step]:
    phase = Phase(core)
    return [
        Step("log2 x by single floats", lambda: log2_text(phase.logarithm())),
        Step("2^t by single floats", lambda: log2_text(phase.power())),
        Step("single_error", phase.claims),
    ]


def half_ulp(greatest: Fraction) -> Fraction:
    """Return the rounding error of a float's operation whose result is at most `greatest`."""
    return Fraction(2) ** (ceil_log2(greatest) - 25)


class Phase:
    """The phase, as compiled. Its errors are relative to the power, but the logarithm's to log2 x."""

    def __init__(self, core: Path):
        self.core = core

    @once
    def lines(self) -> list[list[Fraction]]:
        """Return the numbers of the program's output, a list for each line."""
        told = output(program("singles.cpp", self.core)).splitlines()
        return [[Fraction(float.fromhex(number)) for number in line.split()] for line in told]

    @once
    def logarithm(self) -> Fraction:
        """Return the error of log2 x."""
        greatest, count = gmpy2.mpfr(0), 0
        with gmpy2.context(precision=120):
            for x, log2 in self.lines()[3:]:
                count += 1
                if x == 1:
                    demand(log2 == 0, "log2 1 is not 0")
                else:
                    exact = gmpy2.log2(gmpy2.mpfr(gmpy2.mpq(x)))
                    greatest = max(greatest, abs(gmpy2.mpfr(gmpy2.mpq(log2)) / exact - 1))
        demand(count > 63000, f"there are only {count} bases")
        numerator, denominator = greatest.as_integer_ratio()
        return together(Fraction(int(numerator), int(denominator)), Fraction(1, 1 << 100))

    @once
    def power(self) -> Fraction:
        """Return the error of 2^t, that of s included."""
        coefficients, powers = self.lines()[1:3]
        error = Fraction(0)
        size = abs(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            size = size * GREATEST_REST + abs(c)
            error = error * GREATEST_REST + half_ulp(size + error)
        least = 2 * coefficients[0] - size - error
        polynomial = Polynomial({(): coefficients[0]})
        for i, c in enumerate(coefficients[1:], 1):
            polynomial = polynomial + Polynomial({(("s", i),): c})
        of_q = relative_error(polynomial, "s", "2^x", Interval.within(GREATEST_REST))
        table = max(
            greatest_error("2^x", Fraction(j, len(powers)), power) for j, power in enumerate(powers)
        )  # relative to powers from 1 on
        rest = half_ulp(GREATEST_REST) * LN2[1]
        # The last two: the table's entry times the interval's factor, and the product.
        return together(error / least, of_q, table, rest, ULP, ULP)

    def claims(self) -> str:
        claimed, claimed_of_t = self.lines()[0]
        of_t = self.logarithm() * LN2[1] * (1 + Fraction(1, 1 << 10))
        demand(of_t <= claimed_of_t, f"{log2_text(of_t)} |t| is more than single_error_of_t")
        proved = together(self.power(), self.logarithm() * GREATEST_T * ULP)
        demand(proved <= claimed, f"{log2_text(proved)} is more than single_error")
        return f"{log2_text(proved)} + {log2_text(of_t)} |t|"
