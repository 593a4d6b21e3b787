"""Exact powers and ties (core/numerics/pow_exact.h, exact_power; pow_closed_form.h, has_ties): what is looked for is
all.

Theorem. exact_power finds every x^y that is an integer of at most 66 bits times a power of two, for x > 0 with an odd
significand of at most 64 bits, and y other than 0. A number of a type, the middle of two of them, and an integer
result of 64 bits have at most 65: so the last phase is asked for none that lies on a boundary.

Lemma. Let x = m 2^e, m odd, |y| = n/2^r, n odd if r > 0. If x^y = u 2^v with u odd, then x^n = (u 2^v)^(2^r), so that
m^n = u^(2^r) for y > 0: n is odd or r = 0, so m itself is a 2^r-th power, m = w^(2^r), u = w^n, and e is divisible by
2^r. For y < 0 m^n u^(2^r) = 1, and both are 1. So what there is to find is w^n for odd w: beside m = 1, where every n
counts, n is at most 41, as 3^42 has 67 bits.

    powers      each w, n and r with w^n of at most 66 bits and w^(2^r) of at most 64, n >= 3: all. For n = 1 square
                roots of w^2: all in the full run; else the least, the greatest and random ones. Others are no powers:
                a true answer is compared with the product
    squares     integer_sqrt next to squares: all in the full run
    ties        of floats: the exponents n/2^r for which some w^n has at most 25 bits and w^(2^r) at most 24. has_ties
                takes each. That with these exponents nothing but a tie is undecided, is shown for every float32 base
                by tests/exhaustive/ties.py (docs/exhaustive.md)
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from proofs.bounds import demand
from proofs.compiled import output, program
from proofs.step import Step


def steps(core: Path) -> list[Step]:
    return [
        Step("powers from the third on", lambda: looked_at(core, "powers")),
        Step("square roots", lambda: looked_at(core, "some_roots")),
        Step("every square root", lambda: looked_at(core, "all_roots"), quick=False),
        Step("powers of two, and no powers", lambda: looked_at(core, "others")),
        Step("exponents of float32 with ties", lambda: ties(core)),
    ]


def looked_at(core: Path, what: str, stdin: str = "") -> str:
    """What a program has seen, which fails at the first error."""
    told = output(program("exact_cases.cpp", core), what, stdin=stdin).strip()
    demand(bool(told), "the program has told nothing")
    return told


def ties(core: Path) -> str:
    exponents = {
        Fraction(n) for n in range(1, 16)
    }  # of some w^n; of powers of two every one, which are found apart
    for w in range(3, 1 << 12, 2):
        for r in range(1, 5):
            if (w ** (1 << r)).bit_length() > 24:
                break
            exponents |= {Fraction(n, 1 << r) for n in range(1, 26, 2) if (w**n).bit_length() <= 25}
    demand(max(e.numerator for e in exponents) <= 15, "there are others")
    questions = "".join(f"{float(exponent).hex()}\n" for exponent in sorted(exponents))
    told = looked_at(core, "ties", questions).split()
    missing = [str(e) for e, answer in zip(sorted(exponents), told, strict=True) if answer != "1"]
    demand(not missing, f"has_ties lacks {', '.join(missing)}")
    return f"{len(exponents)} exponents"
