"""Bounds proved by Gappa, and arithmetic with relative errors, for the proofs of all phases."""

from __future__ import annotations

from fractions import Fraction

from proofs import gappa
from proofs.errors import RoundingErrors
from proofs.interval import Polynomial, rounded_up
from proofs.step import Unproved

LN2 = (
    Fraction(0x58B90BFBE8E7BCD5E4F1D9CC01F97B57, 1 << 127),
    Fraction(0x58B90BFBE8E7BCD5E4F1D9CC01F97B58, 1 << 127),
)


def proved_bound(
    errors: RoundingErrors, result: Polynomial, expression: str, ideal: Polynomial, rounding: str = "ne"
) -> Fraction:
    """Return a bound, proved by Gappa, of the distance of a result from a polynomial in the inputs.

    (If a sum may just reach the next binade, Gappa finds up to 1.5 times the derived bound. That is for rounding to
    nearest, and doubled for others.)
    """
    derived = errors.bound(result - ideal)
    if not derived:
        return derived
    for slack in (Fraction(65, 64), Fraction(3, 2)):
        bound = rounded_up(derived * slack * (1 if rounding == "ne" else 2), 12)
        try:
            gappa.check(gappa.script(errors, result, expression, ideal, bound, rounding))
        except Unproved as error:
            failure = error
        else:
            return bound
    raise failure


def together(*relative: Fraction) -> Fraction:
    """Return the relative error of a product of factors with these relative errors."""
    product = Fraction(1)
    for error in relative:
        product *= 1 + error
    return product - 1


def demand(holds: bool, why: str) -> None:
    if not holds:
        raise Unproved(why)
