"""Distances between polynomials and functions, by Sollya's supnorm, which certifies its bounds."""

from __future__ import annotations

import functools
import re
from fractions import Fraction

from proofs.interval import Interval, Polynomial
from proofs.step import Unproved, run_program


def relative_error(polynomial: Polynomial, variable: str, function: str, range_: Interval) -> Fraction:
    """Return the maximum |polynomial / function - 1| in a range, rounded up. `function` is a formula in x. Where it is
    zero, the polynomial must be zero too."""
    return _greatest_distance(polynomial, variable, function, range_, "relative")


def absolute_error(polynomial: Polynomial, variable: str, function: str, range_: Interval) -> Fraction:
    """Return the maximum |polynomial - function| in a range, rounded up."""
    return _greatest_distance(polynomial, variable, function, range_, "absolute")


def _greatest_distance(
    polynomial: Polynomial, variable: str, function: str, range_: Interval, kind: str
) -> Fraction:
    terms = [
        f"({coefficient.numerator})/({coefficient.denominator})"
        + "".join(f"*x^{power}" for _, power in monomial)
        for monomial, coefficient in polynomial.terms.items()
    ]
    assert all(symbol == variable for monomial in polynomial.terms for symbol, _ in monomial)
    ends = "; ".join(f"{end.numerator}/{end.denominator}" for end in (range_.least, range_.greatest))
    return _greatest(
        f"""p = {" + ".join(terms)}; f = {function};
        sup(supnorm(p, f, [{ends}], {kind}, 2^-12));"""
    )


def greatest_error(function: str, x: Fraction, value: Fraction) -> Fraction:
    """Return a bound of |value - function(x)|, by interval arithmetic."""
    point, number = (f"({n.numerator}/{n.denominator})" for n in (x, value))
    return _greatest(f"sup(abs(evaluate(({function}) - {number}, [{point}; {point}])));")


def floor_of(expression: str) -> int:
    """Return the floor of a constant expression."""
    return int(_greatest(f"floor({expression});", precision=2000))


@functools.cache
def _greatest(commands: str, precision: int = 400) -> Fraction:
    """Return the last number that Sollya prints."""
    commands = f"prec = {precision}!; display = dyadic!; {commands}"
    done = run_program(["sollya"], stdin=commands)
    found = re.search(r"^(\d+)(?:b(-?\d+))?$", done.stdout.strip().splitlines()[-1] if done.stdout else "")
    if not found:
        raise Unproved(f"Sollya: {done.stdout.strip() or done.stderr.strip()}")
    return int(found[1]) * Fraction(2) ** int(found[2] or 0)
