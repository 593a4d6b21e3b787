"""Exact powers and ties (core/numerics/pow_exact.h, exact_power; pow_closed_form.h, has_ties): the search for them is
complete.

Theorem. exact_power finds every x^y that is an integer of at most 66 bits times a power of two, for x > 0 with an odd
significand of at most 64 bits, and y other than 0. An element, the middle between two elements, and a 64-bit integer
have at most 65 bits. So the last phase never has to decide a power that lies on a boundary.

Lemma. Let x = m 2^e, m odd, |y| = n/2^r, n odd if r > 0. If x^y = u 2^v with u odd, then x^n = (u 2^v)^(2^r), so that
m^n = u^(2^r) for y > 0: n is odd or r = 0, so m itself is a 2^r-th power, m = w^(2^r), u = w^n, and e is divisible by
2^r. For y < 0 m^n u^(2^r) = 1, and both are 1. So the exact powers are w^n for odd w: for m = 1 every n is possible;
otherwise n is at most 41, since 3^42 has 67 bits.

    powers      n >= 3: all w, n and r with at most 66 bits in w^n and 64 in w^(2^r). n = 1, the square roots of w^2:
                all in the full run, otherwise the least, the greatest and random ones. For numbers that are not such
                powers, a positive answer is compared with the product
    squares     integer_sqrt next to squares: all in the full run
    ties        has_ties accepts every exponent n/2^r of floats for which some w^n has at most 25 bits and w^(2^r) at
                most 24. tests/exhaustive/ties.py verified for every float32 base that with these exponents only ties
                are undecided (docs/exhaustive.md)
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from proofs.bounds import demand
from proofs.compiled import output, program
from proofs.step import Step


def steps(core: Path) -> list[Step]:
    return [
        Step("powers from the third on", lambda: checked(core, "powers")),
        Step("square roots", lambda: checked(core, "some_roots")),
        Step("every square root", lambda: checked(core, "all_roots"), quick=False),
        Step("powers of two, and no powers", lambda: checked(core, "others")),
        Step("exponents of float32 with ties", lambda: ties(core)),
    ]


def checked(core: Path, part: str, stdin: str = "") -> str:
    """Run a part of the program, which fails at the first error, and return its summary."""
    told = output(program("exact_cases.cpp", core), part, stdin=stdin).strip()
    demand(bool(told), "the program printed nothing")
    return told


def ties(core: Path) -> str:
    # The exponents of some w^n. Powers of two have ties with every exponent, and are found separately.
    exponents = {Fraction(n) for n in range(1, 16)}
    for w in range(3, 1 << 12, 2):
        for r in range(1, 5):
            if (w ** (1 << r)).bit_length() > 24:
                break
            exponents |= {Fraction(n, 1 << r) for n in range(1, 26, 2) if (w**n).bit_length() <= 25}
    demand(max(e.numerator for e in exponents) <= 15, "an exponent has a numerator above 15")
    questions = "".join(f"{float(exponent).hex()}\n" for exponent in sorted(exponents))
    told = checked(core, "ties", questions).split()
    missing = [str(e) for e, answer in zip(sorted(exponents), told, strict=True) if answer != "1"]
    demand(not missing, f"has_ties lacks {', '.join(missing)}")
    return f"{len(exponents)} exponents"
