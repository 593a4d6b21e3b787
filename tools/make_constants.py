"""Write core/numerics/constants.h, the polynomials and constants of the power kernels, and constants_float32.h.

The second has those of one float32, and no kernel includes it.

    python tools/make_constants.py          # print the first
    python tools/make_constants.py --write  # replace both

Each polynomial interpolates its function at Chebyshev nodes. For these smooth functions its error is within a
factor of 2 of the best approximation. The coefficients are then rounded to a double, a pair or a triple of
doubles. The printed bound is for the error of the *rounded* polynomial on the whole interval, and is rounded
up (see error_bound).
"""

from __future__ import annotations

import argparse
import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gmpy2  # type: ignore[import-untyped]
from gmpy2 import mpfr

BITS = 500
TARGET = Path(__file__).parents[1] / "core" / "numerics" / "constants.h"
OF_FLOAT32 = TARGET.with_name("constants_float32.h")
WIDE_LIMBS = 17
FAST_ERROR = 1.25 * 2.0**-38
LOG2_PARTS = 16
PAIR_PARTS = 32
EXP2_PARTS = 16
HALF_LOG_PARTS = 16
HALF_LOG_SHIFT = mpfr(11) / 32  # part 0 begins by so much of a part below 1
FLOAT64_LOG_PARTS = 128
FLOAT64_LOG_SHIFT = mpfr(2) ** -15  # parts begin by so much above the middles between multiples of 1/128
FLOAT64_EXP_PARTS = 256
FLOAT32_LOG_PARTS = 128
FLOAT32_EXP_PARTS = 256
SINGLE_PARTS = 8
FLOAT_PAIR_PARTS = 32
FLOAT_PAIR_POWERS = 32
FLOAT_ROW_PARTS = 256
FLOAT_ROW_POWERS = 256


def interpolate(
    f: Callable[[mpfr], mpfr], low: mpfr, high: mpfr, terms: int, left_out: int = 0
) -> list[mpfr]:
    """Return the coefficients of the polynomial that interpolates f at the Chebyshev nodes of [low, high].

    The nodes next to zero may be left out: those of a polynomial whose first coefficients are known.
    """
    pi, count = gmpy2.const_pi(), terms + left_out
    nodes = [
        (low + high) / 2 + (high - low) / 2 * gmpy2.cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)
    ]
    nodes = sorted(nodes, key=abs)[left_out:]
    differences = [f(x) for x in nodes]
    for order in range(1, terms):
        for i in range(terms - 1, order - 1, -1):
            differences[i] = (differences[i] - differences[i - 1]) / (nodes[i] - nodes[i - order])
    coefficients = [differences[-1]]
    for i in range(terms - 2, -1, -1):
        shifted = [mpfr(0), *coefficients]
        for j, c in enumerate(coefficients):
            shifted[j] -= c * nodes[i]
        shifted[0] += differences[i]
        coefficients = shifted
    return coefficients


def fit(f: Callable[[mpfr], mpfr], low: mpfr, high: mpfr, terms: int, zeros: int) -> list[mpfr]:
    """Return the coefficients of the polynomial p for which x^zeros (p - f) is least on [low, high], by Remez' exchange
    on a grid: its extremes have the same size and alternate signs."""
    grid = [low + (high - low) * i / 2000 for i in range(2001)]
    weights = [abs(x) ** zeros for x in grid]
    places = [2000 * i // terms for i in range(terms + 1)]
    for _ in range(12):
        rows = [
            [*(grid[i] ** j for j in range(terms)), (-1) ** k / weights[i], f(grid[i])]
            for k, i in enumerate(places)
        ]
        *coefficients, _ = solve(rows)
        errors = [w * (horner(coefficients, x) - f(x)) for x, w in zip(grid, weights, strict=True)]
        runs = [list(run) for _, run in itertools.groupby(range(len(grid)), key=lambda i: errors[i] > 0)]
        extremes = [max(run, key=lambda i: abs(errors[i])) for run in runs]
        while len(extremes) > terms + 1:  # at the zero of the weight are short runs
            del extremes[min(range(len(extremes)), key=lambda k: abs(errors[extremes[k]]))]
        places = extremes
    return coefficients


def solve(rows: list[list[mpfr]]) -> list[mpfr]:
    """Return the solution of linear equations: each row has coefficients and the right side."""
    for k in range(len(rows)):
        pivot = max(range(k, len(rows)), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i, row in enumerate(rows):
            if i != k:
                rows[i] = [value - row[k] * by for value, by in zip(row, rows[k], strict=True)]
    return [row[-1] for row in rows]


def as_float(value: mpfr) -> float:
    """Return a number rounded to float."""
    return float(gmpy2.mpfr(value, 24))


def rounded(c: mpfr, doubles: int) -> list[float]:
    """Return c as an unevaluated sum of `doubles` doubles."""
    parts = []
    for _ in range(doubles):
        part = float(c)
        parts.append(part)
        c = c - mpfr(part)
    return parts


def split_at(value: mpfr, bits: int) -> tuple[mpfr, mpfr]:
    """Return a number as the nearest multiple of 2^-bits and the remainder."""
    high = gmpy2.rint(gmpy2.mul_2exp(value, bits)) / 2**bits
    return high, value - high


def pair(name: str, parts: Iterable[float]) -> str:
    return f"inline constexpr DoubleDouble {name} = {{{', '.join(part.hex() for part in parts)}}};"


@dataclass(frozen=True)
class Function:
    """A positive monotone function and its power series at 0, whose factors do not increase."""

    value: Callable[[mpfr], mpfr]
    factor: Callable[[int], mpfr]


def log2_of_quotient(z: mpfr) -> mpfr:
    """log2((1+s)/(1-s)) / s as a function of z = s*s."""
    if z == 0:
        return 2 / gmpy2.const_log2()
    s = gmpy2.sqrt(z)
    return 2 * gmpy2.atanh(s) / (s * gmpy2.const_log2())


def log2_of_one_and(f: mpfr) -> mpfr:
    """log2(1+f) / f."""
    return (gmpy2.log1p(f) / f if f != 0 else 1) / gmpy2.const_log2()


def exp2_less_one(r: mpfr) -> mpfr:
    """(2^r - 1) / r."""
    return gmpy2.expm1(r * gmpy2.const_log2()) / r if r != 0 else gmpy2.const_log2()


def lowered_exp2(r: mpfr) -> mpfr:
    """2^r less the fast phase's error, so that the computed value is the lower end of the interval."""
    return gmpy2.exp2(r) * (1 - mpfr(FAST_ERROR))


def exp2_factor(k: int) -> mpfr:
    return gmpy2.const_log2() ** k / gmpy2.factorial(k)


def log_less_two_terms(f: mpfr) -> mpfr:
    """(log(1+f) - f + f^2/2) / f^3."""
    return (gmpy2.log1p(f) - f + f**2 / 2) / f**3 if f != 0 else mpfr(1) / 3


def exp_less_two_terms(r: mpfr) -> mpfr:
    """(e^r - 1 - r) / r^2."""
    return (gmpy2.expm1(r) - r) / r**2 if r != 0 else mpfr(1) / 2


LOG2_OF_QUOTIENT = Function(log2_of_quotient, lambda k: 2 / (gmpy2.const_log2() * (2 * k + 1)))
LOG2_OF_ONE_AND = Function(log2_of_one_and, lambda k: (-1) ** k / (gmpy2.const_log2() * (k + 1)))
EXP2 = Function(gmpy2.exp2, lambda k: exp2_factor(k))
EXP2_LESS_ONE = Function(exp2_less_one, lambda k: exp2_factor(k + 1))
LOWERED_EXP2 = Function(lowered_exp2, lambda k: (1 - mpfr(FAST_ERROR)) * exp2_factor(k))

EXP = Function(gmpy2.exp, lambda k: 1 / gmpy2.factorial(k))
LOG_LESS_TWO_TERMS = Function(log_less_two_terms, lambda k: mpfr((-1) ** k) / (k + 3))
EXP_LESS_TWO_TERMS = Function(exp_less_two_terms, lambda k: 1 / gmpy2.factorial(k + 2))


def error_bound(f: Function, low: mpfr, high: mpfr, coefficients: list[mpfr]) -> mpfr:
    """Return a bound of |polynomial / f - 1| on [low, high].

    f is replaced by its power series, truncated where the rest is below 2^-160, so that the difference is a
    polynomial. On an interval, a polynomial of degree n is at most 1 / cos(pi n / 2m) times its maximum over m > n
    Chebyshev nodes (Ehlich and Zeller, 1964). The interval is divided into pieces, on which f is nearly constant.
    """
    reach, pieces, nodes_a_term = max(abs(low), abs(high)), 64, 24
    terms = len(coefficients)
    while (rest := abs(f.factor(terms)) * reach**terms / (1 - reach)) > mpfr(2) ** -160:
        terms += 1
    difference = [(coefficients[k] if k < len(coefficients) else 0) - f.factor(k) for k in range(terms)]
    pi, m = gmpy2.const_pi(), nodes_a_term * terms
    nodes = [gmpy2.cos(pi * (2 * i + 1) / (2 * m)) for i in range(m)]
    between = 1 / gmpy2.cos(pi * (terms - 1) / (2 * m))
    worst = mpfr(0)
    for piece in range(pieces):
        begin, end = (low + (high - low) * i / pieces for i in (piece, piece + 1))
        middle, half = (begin + end) / 2, (end - begin) / 2
        greatest = max(abs(horner(difference, middle + half * node)) for node in nodes)
        worst = max(worst, (greatest * between + rest) / min(f.value(begin), f.value(end)))
    return worst


def horner(coefficients: Sequence[mpfr], x: mpfr) -> mpfr:
    """Evaluate a polynomial."""
    value = mpfr(0)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def power_of_two(bound: mpfr) -> str:
    """Return a positive bound as a power of two whose exponent has two decimals, rounded up."""
    return f"2^{rounded_up(gmpy2.log2(bound), 2)}"


def rounded_up(value: mpfr, decimals: int) -> str:
    return f"{float(gmpy2.ceil(10**decimals * value)) / 10**decimals:.{decimals}f}"


def polynomial(
    name: str,
    comment: str,
    f: Function,
    low: mpfr,
    high: mpfr,
    terms: int,
    pairs: int,
    triples: int = 0,
) -> str:
    """Return C++ arrays of the coefficients, the constant first: as triples, then pairs, then doubles."""
    exact = interpolate(f.value, low, high, terms)
    parts = [rounded(c, 3 if i < triples else 2 if i < triples + pairs else 1) for i, c in enumerate(exact)]
    bound = error_bound(f, low, high, [sum(map(mpfr, p), mpfr(0)) for p in parts])
    lines = [f"// {comment}, of degree {terms - 1}: relative error at most {power_of_two(bound)}."]
    kinds = (
        ("TripleDouble", f"{name}_triples", parts[:triples]),
        ("DoubleDouble", f"{name}_pairs", parts[triples : triples + pairs]),
    )
    for kind, array, some in kinds:
        if some:
            lines.append(f"inline constexpr {kind} {array}[] = {{")
            lines += [f"    {{{', '.join(part.hex() for part in p)}}}," for p in some]
            lines.append("};")
    lines.append(f"inline constexpr double {name}[] = {{")
    lines += [f"    {p[0].hex()}," for p in parts[triples + pairs :]]
    lines.append("};")
    return "\n".join(lines)


def halved_polynomial(
    name: str, comment: str, f: Function, reach: tuple[mpfr, mpfr], terms: int, times: int, known: int = 0
) -> str:
    """Return a C++ array of the coefficients of f's series after the first `known`, for half the argument.

    The printed error is that of the whole series.
    """
    first = [f.factor(k) for k in range(known)]
    rest = interpolate(lambda x: (f.value(x) - horner(first, x)) / x**known, *reach, terms, known)
    rounded_rest = [float(c) for c in rest]
    bound = error_bound(f, *reach, [*first, *map(mpfr, rounded_rest)])
    lines = table(name, [c * times * 2.0**k for k, c in enumerate(rounded_rest)])
    return "\n".join(
        [f"// {comment}, of degree {terms - 1}: relative error at most {power_of_two(bound)}.", *lines]
    )


def table(name: str, values: Sequence[float], kind: str = "double", aligned: bool = False) -> list[str]:
    lines = [f"{'alignas(64) ' if aligned else ''}inline constexpr {kind} {name}[{len(values)}] = {{"]
    lines += [f"    {(value + 0.0).hex()}{'f' if kind == 'float' else ''}," for value in values]
    return [*lines, "};"]


def records(name: str, kind: str, rows: list[list[float]], suffix: str = "") -> list[str]:
    lines = [f"inline constexpr {kind} {name}[{len(rows)}] = {{"]
    lines += [f"    {{{', '.join((value + 0.0).hex() + suffix for value in row)}}}," for row in rows]
    return [*lines, "};"]


def log2_table() -> str:
    """Return r, about 1/m, and -log2 r for each part of [1, 2). r is 1 in the first part and 1/2 in the last."""
    middles = [1 + (mpfr(i) + 0.5) / LOG2_PARTS for i in range(LOG2_PARTS)]
    reciprocals = [1.0, *(float(1 / middle) for middle in middles[1:-1]), 0.5]
    logarithms = [float(-gmpy2.log2(mpfr(r))) for r in reciprocals]
    lines = ["// About 1/m for m in [1 + i/16, 1 + (i+1)/16), and minus its log2, rounded."]
    return "\n".join([*lines, *table("log2_reciprocals", reciprocals), *table("log2_parts", logarithms)])


@dataclass(frozen=True)
class PairPart:
    """A part of the numbers m around [1, 2), and an r with which f = m r - 1 is small and exact."""

    r: mpfr
    least: mpfr
    greatest: mpfr

    def of_logarithm(self, size: Callable[[mpfr], mpfr]) -> mpfr:
        """Return the maximum size(f) / |log2 x| for x = m and m/2. Size must grow faster with |f| than |log2 x|."""
        return max(
            size(f) / abs(gmpy2.log2((1 + f) / self.r) + e)
            for f in (self.least, self.greatest)
            for e in (0, -1)
        )


def fourth_power(f: mpfr) -> mpfr:
    return f**4


def pair_part(i: int) -> PairPart:
    """Return part i, around 1 + i/32. r has 6 bits, or 7 if |f| is so small that f still has at most 53."""
    begin, end = 1 + mpfr(2 * i - 1) / 64, 1 + mpfr(2 * i + 1) / 64
    if i == 0:
        begin = 1 - mpfr(1) / 128  # below 1 the spacing is that of the binade below
    best = None
    for numerator in range(64, 129) if i else [128]:
        r = mpfr(numerator) / 128
        ends = [m * r - 1 for m in (begin, end)]
        if max(map(abs, ends)) > mpfr(1) / (64 if numerator % 2 else 32):
            continue
        logarithms = [(abs(f), abs(gmpy2.log2((1 + f) / r) + e)) for f in ends for e in (0, -1)]
        # The sum of -log2 r and log2(1 + f), which is below 1.5 f, can then be subtracted from -log2 r exactly: 1.5 f
        # is less than twice the power of two at or below the sum.
        exact = r == 1 or all(1.5 * f < 2 ** (gmpy2.floor(gmpy2.log2(log2)) + 1) for f, log2 in logarithms)
        if not exact:
            continue
        part = PairPart(r, *ends)
        if best is None or part.of_logarithm(fourth_power) < best.of_logarithm(fourth_power):
            best = part
    assert best is not None
    return best


def pair_tables() -> str:
    """Return the tables of the double-double and triple-double phases: reciprocals, logarithms, powers of two."""
    parts = [pair_part(i) for i in range(PAIR_PARTS)]
    least, greatest = min(part.least for part in parts), max(part.greatest for part in parts)
    sizes = (lambda f: abs(gmpy2.log2(1 + f)), lambda f: f**2, fourth_power, lambda f: abs(f) ** 11)
    of_log2 = [power_of_two(max(part.of_logarithm(size) for part in parts)) for size in sizes]
    reach = f"-{rounded_up(-least, 4)} <= f <= {rounded_up(greatest, 4)}"
    logarithms = [-gmpy2.log2(part.r) for part in parts]
    splits = [split_at(log2, 42) for log2 in logarithms]
    lines = [
        "// r, about 1/m, for m in [1 + (2i-1)/64, 1 + (2i+1)/64), and -log2 r in three parts: a multiple of 2^-42,",
        "// the remainder, and the remainder of that for triples.",
        f"// f = m r - 1, {reach}. Upper bounds relative to |log2 x|, x = m 2^e: |log2(1+f)| {of_log2[0]},",
        f"// f^2 {of_log2[1]}, f^4 {of_log2[2]}, |f|^11 {of_log2[3]}.",
        "struct alignas(32) PairLogEntry {",
        "    double r, high, low, last;",
        "};",
        *records(
            "dd_log_entries",
            "PairLogEntry",
            [
                [float(p.r), float(high), *rounded(low, 2)]
                for p, (high, low) in zip(parts, splits, strict=True)
            ],
        ),
        polynomial(
            "log2_dd",
            f"log2(1+f)/f, {reach}",
            LOG2_OF_ONE_AND,
            least,
            greatest,
            11,
            3,
        ),
        polynomial("log2_td", "The same", LOG2_OF_ONE_AND, least, greatest, 16, 9, 1),
    ]
    greatest_rest = mpfr(1) / (2 * EXP2_PARTS)
    powers = [gmpy2.exp2(mpfr(i) / EXP2_PARTS) for i in range(EXP2_PARTS)]
    corrections = [rounded(power / mpfr(float(power)) - 1, 2) for power in powers]
    lines += [
        f"// 2^(i/{EXP2_PARTS}), rounded, and its correction, the relative rounding error, in two parts.",
        "struct alignas(32) PairExpEntry {",
        "    double power, correction, correction_low;",
        "};",
        *records(
            "dd_exp_entries",
            "PairExpEntry",
            [[float(power), *correction] for power, correction in zip(powers, corrections, strict=True)],
        ),
        polynomial(
            "exp2_dd",
            f"(2^r - 1)/r, |r| <= 1/{2 * EXP2_PARTS}",
            EXP2_LESS_ONE,
            -greatest_rest,
            greatest_rest,
            8,
            2,
        ),
        polynomial("exp2_td", "The same", EXP2_LESS_ONE, -greatest_rest, greatest_rest, 12, 7),
    ]
    return "\n".join(lines)


def float64_part(i: int) -> tuple[mpfr, mpfr, mpfr]:
    """Return r, a multiple of 1/256, and the ends of f, f = m r - 1, of part i of [1, 2), around 1 + i/128.

    f/2 is a multiple of 2^-61 and below 2^-8. Where log x is not log(1+f), the half of log x is at least 2^-9, and so
    f/2 can be subtracted from it exactly. (If parts were not moved, it would be slightly less at one of their ends.)
    """
    begin, end = (1 + mpfr(2 * i + side) / (2 * FLOAT64_LOG_PARTS) + FLOAT64_LOG_SHIFT for side in (-1, 1))
    if i == 0:
        begin = 1 - mpfr(1) / (4 * FLOAT64_LOG_PARTS) + FLOAT64_LOG_SHIFT / 2  # below 1 the spacing is half
    r = gmpy2.rint(512 / (begin + end)) / 256 if i else mpfr(1)
    ends = [m * r - 1 for m in (begin, end)]
    assert max(map(abs, ends)) < mpfr(1) / 128
    logarithms = [] if r in (1, 0.5) else [gmpy2.log(m) for m in (begin, end)]
    logarithms += [gmpy2.log(m / 2) for m in (begin, end)] if r != 0.5 else []
    assert all(abs(log) >= mpfr(1) / 256 for log in logarithms)
    return r, min(ends), max(ends)


def float64_tables() -> str:
    """Return the tables of float64's fast phase without AVX-512, whose logarithms are half the natural ones."""
    parts = [float64_part(i) for i in range(FLOAT64_LOG_PARTS)]
    least, greatest = min(f for _, f, _ in parts), max(f for _, _, f in parts)
    # Multiples of 2^-44, so that e times half of ln 2's high part plus a logarithm's high part is exact.
    entries = [[float(r / 2), *map(float, split_at(-gmpy2.log(r) / 2, 44))] for r, _, _ in parts]
    step = gmpy2.const_log2() / FLOAT64_EXP_PARTS
    greatest_r = step / 2 + mpfr(2) ** -14
    powers = [gmpy2.exp2(mpfr(i) / FLOAT64_EXP_PARTS) for i in range(FLOAT64_EXP_PARTS)]
    bits = [struct.unpack("<Q", struct.pack("<d", float(power)))[0] for power in powers]
    place = 52 - FLOAT64_EXP_PARTS.bit_length() + 1
    rows = zip(bits, powers, strict=True)
    f_reach, r_reach = (
        f"-{rounded_up(-least, 5)} <= f <= {rounded_up(greatest, 5)}",
        rounded_up(greatest_r, 5),
    )
    return "\n".join(
        [
            (
                "// r/2, r about 1/m, for m in [1 + (2i-1)/256 + 2^-15, 1 + (2i+1)/256 + 2^-15), and -log(r)/2 in two "
                "parts:"
            ),
            f"// a multiple of 2^-44 and the remainder. f = m r - 1, {f_reach}.",
            "struct alignas(32) LogEntry {",
            "    double r, high, low;",
            "};",
            *records("float64_log_entries", "LogEntry", entries),
            halved_polynomial(
                "float64_log",
                f"(log(1+f) - f + f^2/2) / f^3, {f_reach}, in f/2 and times 4",
                LOG_LESS_TWO_TERMS,
                (least, greatest),
                terms=6,
                times=4,
            ),
            f"// ln 2 / {FLOAT64_EXP_PARTS}, a double and the remainder.",
            pair("float64_step", rounded(step, 2)),
            f"inline constexpr double float64_steps = {float(1 / step).hex()};  // per unit of the logarithm",
            (
                f"// The bits of 2^(i/{FLOAT64_EXP_PARTS}), rounded, less i 2^{place}; and its correction, "
                "the relative rounding error."
            ),
            "struct alignas(16) ExpEntry {",
            "    uint64_t power;",
            "    double correction;",
            "};",
            f"inline constexpr ExpEntry float64_exp_entries[{FLOAT64_EXP_PARTS}] = {{",
            *(
                f"    {{0x{encoding - (i << place):x}, {(float(power / mpfr(float(power)) - 1) + 0.0).hex()}}},"
                for i, (encoding, power) in enumerate(rows)
            ),
            "};",
            polynomial(
                "float64_exp",
                f"(e^r - 1 - r) / r^2, |r| <= {r_reach}",
                EXP_LESS_TWO_TERMS,
                -greatest_r,
                greatest_r,
                4,
                0,
            ),
        ]
    )


def float32_part(i: int) -> tuple[mpfr, mpfr, mpfr]:
    """Return r, a multiple of 2^-12, of part i of [1, 2), around 1 + i/128, and the ends of f = m r - 1 there."""
    begin, end = (1 + mpfr(2 * i + side) / (2 * FLOAT32_LOG_PARTS) for side in (-1, 1))
    if i == 0:
        begin = 1 - mpfr(1) / (4 * FLOAT32_LOG_PARTS)  # below 1 the spacing is that of the binade below
    r = gmpy2.rint(2**13 / (begin + end)) / 2**12 if i else mpfr(1)
    return r, begin * r - 1, end * r - 1


def float32_tables() -> str:
    """Return the tables of the phase for one float32. Its logarithms count parts of 2^(1/256)."""
    parts = [float32_part(i) for i in range(FLOAT32_LOG_PARTS)]
    least, greatest = min(part[1] for part in parts), max(part[2] for part in parts)
    log_terms, exp_terms = 5, 3
    log = [float(c) for c in interpolate(log2_of_one_and, least, greatest, log_terms)]
    of_log = power_of_two(error_bound(LOG2_OF_ONE_AND, least, greatest, list(map(mpfr, log))))
    reach = mpfr(1) / FLOAT32_EXP_PARTS
    exp = [float(c) for c in interpolate(exp2_less_one, -reach, reach, exp_terms)]
    of_exp = power_of_two(error_bound(EXP2, -reach, reach, [mpfr(1), *map(mpfr, exp)]))
    scale = FLOAT32_EXP_PARTS
    entries = [[float(r), float(-gmpy2.log2(r) * scale)] for r, _, _ in parts]
    powers = [float(gmpy2.exp2(mpfr(i) / scale)) for i in range(scale)]
    return "\n".join(
        [
            "// r, a multiple of 2^-12 about 1/m, for m in [1 + (2i-1)/256, 1 + (2i+1)/256), and -256 log2 r.",
            "struct alignas(16) Float32LogEntry {",
            "    double r, log2;",
            "};",
            *records("float32_log_entries", "Float32LogEntry", entries),
            f"// 256 log2(1+f)/f, f = m r - 1, -{rounded_up(-least, 5)} <= f <= {rounded_up(greatest, 5)}, of degree",
            f"// {log_terms - 1}: relative error at most {of_log}.",
            *table("float32_log2", [c * scale for c in log]),
            f"// 2^(i/{scale}), rounded, less i in units of 2^44: the index is in the lower bits of what is added.",
            *integers("float32_powers", [bits_of(power) - (i << 44) for i, power in enumerate(powers)]),
            f"// Q = (2^(s/{scale}) - 1)/s, |s| <= 1, of degree {exp_terms - 1}: 1 + s Q is within {of_exp}.",
            *table("float32_exp2", [c / scale ** (k + 1) for k, c in enumerate(exp)]),
        ]
    )


def bits_of(value: float) -> int:
    return int.from_bytes(struct.pack(">d", value), "big")


def integers(name: str, values: Sequence[int]) -> list[str]:
    lines = [f"inline constexpr uint64_t {name}[{len(values)}] = {{"]
    return [*lines, *(f"    0x{value:016x}," for value in values), "};"]


def single_polynomial(name: str, comment: str, f: Function, low: mpfr, high: mpfr, terms: int) -> list[str]:
    """Return the coefficients, the constant first, as floats."""
    coefficients = [as_float(c) for c in interpolate(f.value, low, high, terms)]
    bound = power_of_two(error_bound(f, low, high, [mpfr(c) for c in coefficients]))
    return [
        f"// {comment}, of degree {terms - 1}: relative error at most {bound}.",
        *table(name, coefficients, "float"),
    ]


def single_part(i: int) -> tuple[mpfr, mpfr]:
    """Return r, a float about 1/m, and -log2 r of part i, around 1 + i/8.

    Of the multiples of 2^-16 near the logarithm of the middle, the one whose power of two is nearest to a float.
    """
    if i == 0:
        return mpfr(1), mpfr(0)
    middle = gmpy2.rint(gmpy2.mul_2exp(gmpy2.log2(1 + mpfr(i) / SINGLE_PARTS), 16))
    near = [(middle + k) / 2**16 for k in range(-400, 401)]
    log2 = min(near, key=lambda log2: abs(as_float(gmpy2.exp2(-log2)) * gmpy2.exp2(log2) - 1))
    return mpfr(as_float(gmpy2.exp2(-log2))), log2


def single_tables() -> str:
    """Return the tables of the phase in single floats.

    x's exponent is counted from 2^-125 there, so that m 2^-125, whose bits are those of x less a multiple of 2^23, is a
    normal float.
    """
    parts = [single_part(i) for i in range(SINGLE_PARTS)]
    # Below 1 the spacing is that of the binade below.
    edges = [
        (1 + mpfr(2 * i - (1 if i else 0.5)) / 16, 1 + mpfr(2 * i + 1) / 16) for i in range(SINGLE_PARTS)
    ]
    reaches = [edge * r - 1 for edge_pair, (r, _) in zip(edges, parts, strict=True) for edge in edge_pair]
    least, greatest = min(reaches), max(reaches)
    of_parts = max(abs(r * gmpy2.exp2(log2) - 1) for r, log2 in parts)
    powers = [gmpy2.exp2(mpfr(i) / SINGLE_PARTS) for i in range(SINGLE_PARTS)]
    of_powers = max(abs(as_float(power) / power - 1) for power in powers)
    half_a_part = mpfr(1) / (2 * SINGLE_PARTS)
    reach = f"-{rounded_up(-least, 4)} <= f <= {rounded_up(greatest, 4)}"
    return "\n".join(
        [
            "// 2^125 r, r about 1/m, for m in [1 + (2i-1)/16, 1 + (2i+1)/16), and -log2 r - 125, of which",
            f"// r is the power to within {power_of_two(of_parts)}: a multiple of 2^-16. f = m r - 1, {reach}.",
            *table("single_reciprocals", [float(r * 2**125) for r, _ in parts], "float"),
            *table("single_logarithms", [float(log2 - 125) for _, log2 in parts], "float"),
            *single_polynomial("single_log2", f"log2(1+f)/f, {reach}", LOG2_OF_ONE_AND, least, greatest, 5),
            f"// 2^(i/{SINGLE_PARTS}): relative error at most {power_of_two(of_powers)}.",
            *table("single_powers", [as_float(power) for power in powers], "float"),
            *single_polynomial("single_exp2", "2^r, |r| <= 1/16", EXP2, -half_a_part, half_a_part, 4),
        ]
    )


def half_log_part(i: int) -> tuple[mpfr, mpfr, mpfr]:
    """Return r, a multiple of 1/64, and the ends of f, f = m r - 1, of part i of [1, 2), which begins
    HALF_LOG_SHIFT parts below 1 + i/16.

    f/2 is a double. And where log x is not log(1+f), f is so small beside it that a difference of their halves is
    exact: up to the place that a double of log x's size leaves off.
    """
    begin, end = (1 + (i + side - HALF_LOG_SHIFT) / HALF_LOG_PARTS for side in (0, 1))
    if i == 0:
        begin = 1 - HALF_LOG_SHIFT / (2 * HALF_LOG_PARTS)  # below 1 the spacing is that of the binade below
    found = []
    for numerator in range(32, 65) if i else [64]:
        r = mpfr(numerator) / 64
        ends = [m * r - 1 for m in (begin, end)]
        unit = mpfr(numerator & -numerator) / 64
        logarithms = [] if numerator in (32, 64) else [(f, gmpy2.log((1 + f) / r)) for f in ends]
        logarithms += [(f, log - gmpy2.const_log2()) for f, log in logarithms]
        is_double = max(map(abs, ends)) <= 2 * unit
        if is_double and all(
            1.06 * abs(f) < 2 ** (gmpy2.floor(gmpy2.log2(abs(log))) + 1) for f, log in logarithms
        ):
            found.append((max(map(abs, ends)), r, *ends))
    _, r, least, greatest = min(found)
    return r, least, greatest


def half_log_tables() -> str:
    """Return the tables of float64's fast phase in registers, whose logarithms are half the natural ones."""
    parts = [half_log_part(i) for i in range(HALF_LOG_PARTS)]
    least, greatest = min(f for _, f, _ in parts), max(f for _, _, f in parts)

    ln2 = gmpy2.const_log2()
    step = ln2 / (2 * EXP2_PARTS)
    greatest_r = step + mpfr(2) ** -20
    f_reach = f"-{rounded_up(-least, 4)} <= f <= {rounded_up(greatest, 4)}"
    return "\n".join(
        [
            "// r/2, r about 1/m, for m in [1 + (32i-11)/512, 1 + (32i+21)/512), and -log(r)/2 in two parts: a",
            f"// multiple of 2^-44 and the remainder. f = m r - 1, {f_reach}.",
            "struct HalfLogEntry {",
            "    double r, high, low;",
            "};",
            *records(
                "half_log_entries",
                "HalfLogEntry",
                [[float(r / 2), *map(float, split_at(-gmpy2.log(r) / 2, 44))] for r, _, _ in parts],
            ),
            "// Half of ln 2, in the same two parts, and of ln 2 / 16, a double and the remainder.",
            pair("half_ln2", map(float, split_at(ln2 / 2, 44))),
            pair("half_exp_step", rounded(step, 2)),
            f"inline constexpr double half_exp_steps = {float(1 / step).hex()};  // per unit of the half logarithm",
            halved_polynomial(
                "half_log",
                f"(log(1+f) - f + f^2/2) / f^3, {f_reach}, in f/2 and times 4",
                LOG_LESS_TWO_TERMS,
                (least, greatest),
                terms=9,
                times=4,
            ),
            halved_polynomial(
                "half_exp",
                f"e^r = 1 + r + ..., |r| <= {rounded_up(greatest_r, 5)}, the terms from r^3 on, in r/2 and times 4",
                EXP,
                (-greatest_r, greatest_r),
                terms=6,
                times=4,
                known=3,
            ),
        ]
    )


def float_table(name: str, values: Sequence[float]) -> list[str]:
    return table(name, values, "float", aligned=True)


def float_pair_part(i: int) -> tuple[mpfr, mpfr, mpfr]:
    """Return r, a multiple of 1/64, and the range of f = m r - 1 for m in part i of [1, 2), from 1 + i/32 on.

    Next to 1 and 2, r is a power of two, so that the logarithm is that of 1 + f alone. Elsewhere |log r| is greater
    than |f|, for x = m and m/2: otherwise what their sum loses may be no float.
    """
    begin, end = (1 + mpfr(k) / FLOAT_PAIR_PARTS for k in (i, i + 1))
    candidates = [mpfr(k) / 64 for k in range(32, 65)]
    if i in (0, FLOAT_PAIR_PARTS - 1):
        candidates = [mpfr(1) if i == 0 else mpfr("0.5")]
    r = min(candidates, key=lambda r: max(abs(begin * r - 1), abs(end * r - 1)))
    least, greatest = begin * r - 1, end * r - 1
    size = max(-least, greatest)
    assert size <= mpfr(1) / 32
    assert all(log == 0 or abs(log) > size for log in (gmpy2.log(r), gmpy2.log(2 * r)))
    return r, least, greatest


def float_pair_tables() -> str:
    """Return the tables of float32's phase in pairs of floats. All logarithms are halved."""
    parts = [float_pair_part(i) for i in range(FLOAT_PAIR_PARTS)]
    least, greatest = min(part[1] for part in parts), max(part[2] for part in parts)
    # Multiples of 2^-18, so that e times ln 2's high part plus a logarithm's high part is a float.
    split = [[*map(as_float, split_at(-gmpy2.log(r) / 2, 18))] for r, _, _ in parts]
    ln2_high, ln2_low = map(as_float, split_at(gmpy2.const_log2() / 2, 18))
    split[-1] = [ln2_high, ln2_low]
    step = gmpy2.const_log2() / (2 * FLOAT_PAIR_POWERS)
    step_high = as_float(step)
    reach = step / 2 * mpfr("1.001")
    powers = [as_float(gmpy2.exp2(mpfr(i) / FLOAT_PAIR_POWERS)) for i in range(FLOAT_PAIR_POWERS)]
    lows = [as_float(step * i - gmpy2.log(mpfr(power)) / 2) if i else 0.0 for i, power in enumerate(powers)]
    # P in log(1 + 2v)/2 = v - v^2 + v^3 P(v), and Q in e^2r = 1 + 2 (r + r^2 Q(r)).
    cubic = fit(lambda v: 4 * log_less_two_terms(2 * v), least / 2, greatest / 2, 4, 3)
    square = fit(lambda r: 2 * exp_less_two_terms(2 * r), -reach, reach, 3, 2)
    return "\n".join(
        [
            "// r/2, r about 1/m, for m in [1 + i/32, 1 + (i+1)/32), and -log(r)/2 in two parts: a multiple of 2^-18",
            f"// and the remainder. f = m r - 1, -{rounded_up(-least, 5)} <= f <= {rounded_up(greatest, 5)}.",
            *float_table("float_pair_halves", [float(r / 2) for r, _, _ in parts]),
            *float_table("float_pair_highs", [high for high, _ in split]),
            *float_table("float_pair_lows", [low for _, low in split]),
            "// ln(2)/2, in the same two parts.",
            f"inline constexpr float float_pair_ln2[] = {{{ln2_high.hex()}f, {ln2_low.hex()}f}};",
            "// P in log(1 + 2v)/2 = v - v^2 + v^3 P(v), |2v| as |f|.",
            *float_table("float_pair_log", [as_float(c) for c in cubic]),
            f"// 2^(i/{FLOAT_PAIR_POWERS}), rounded, and half the logarithm of the factor that is missing.",
            *float_table("float_pair_powers", powers),
            *float_table("float_pair_corrections", lows),
            f"// ln(2)/{2 * FLOAT_PAIR_POWERS}, rounded, and the remainder.",
            (
                f"inline constexpr float float_pair_step[] = {{{step_high.hex()}f, "
                f"{as_float(step - step_high).hex()}f}};"
            ),
            f"inline constexpr float float_pair_steps = {as_float(1 / step).hex()}f;  // per unit of half a logarithm",
            "// Q in e^(2r) = 1 + 2 (r + r^2 Q(r)), |r| up to half a step.",
            *float_table("float_pair_exp", [as_float(c) for c in square]),
        ]
    )


def float_row_part(i: int) -> tuple[mpfr, mpfr, mpfr]:
    """Return r and the range of f = m r - 1 for m in part i of [1/2, 2): 128 parts below 1 and as many from 1 on.

    f/2 is a multiple of 2^-32 and at most 2^-8. Where log x is not log(1+f), the half of log x is at least 2^-9, and so
    what the sum loses is a float.
    """
    binade = mpfr("0.5") if i < FLOAT_ROW_PARTS // 2 else mpfr(1)
    begin, end = (binade * (1 + mpfr(2 * k) / FLOAT_ROW_PARTS) for k in (i % 128, i % 128 + 1))
    unit = 256 * binade
    r = gmpy2.rint(2 / (begin + end) * unit) / unit
    if 1 in (begin, end):
        r = mpfr(1)
    ends = [begin * r - 1, end * r - 1]
    assert max(map(abs, ends)) <= mpfr(1) / 128
    assert r == 1 or min(abs(gmpy2.log(m)) for m in (begin, end)) >= mpfr(1) / 256
    return r, min(ends), max(ends)


def float_row_tables() -> str:
    """Return the rows of float32's phase in pairs of floats with AVX2. All logarithms are halved."""
    parts = [float_row_part(i) for i in range(FLOAT_ROW_PARTS)]
    least, greatest = min(part[1] for part in parts), max(part[2] for part in parts)
    logs = [
        [float(r / 2), *map(as_float, split_at(-gmpy2.log(r) / 2, 18)), 0.0] for r, _, _ in parts
    ]  # as float_pair_tables
    ln2_high, ln2_low = map(as_float, split_at(gmpy2.const_log2(), 18))
    step = gmpy2.const_log2() / (2 * FLOAT_ROW_POWERS)
    step_high = as_float(step)
    reach = step / 2 * mpfr("1.01")
    powers = [as_float(gmpy2.exp2(mpfr(i) / FLOAT_ROW_POWERS)) for i in range(FLOAT_ROW_POWERS)]
    lows = [as_float(step * i - gmpy2.log(mpfr(power)) / 2) if i else 0.0 for i, power in enumerate(powers)]
    cubic = fit(lambda v: 4 * log_less_two_terms(2 * v), least / 2, greatest / 2, 3, 3)
    square = fit(lambda r: 2 * exp_less_two_terms(2 * r), -reach, reach, 2, 2)
    return "\n".join(
        [
            "// r/2, r about 1/m, for m in 128 parts of [1/2, 1) and of [1, 2), and -log(r)/2 in two parts: a multiple",
            f"// of 2^-18 and the remainder. f = m r - 1, -{rounded_up(-least, 5)} <= f <= {rounded_up(greatest, 5)}.",
            "struct alignas(16) FloatLogRow {",
            "    float half, high, low, unused;",
            "};",
            *records("float_row_logs", "FloatLogRow", logs, "f"),
            "// ln(2) 2^-24, in two parts.",
            f"inline constexpr float float_row_ln2[] = {{{(ln2_high / 2**24).hex()}f, {(ln2_low / 2**24).hex()}f}};",
            "// P in log(1 + 2v)/2 = v - v^2 + v^3 P(v), |2v| as |f|.",
            *float_table("float_row_log", [as_float(c) for c in cubic]),
            f"// 2^(i/{FLOAT_ROW_POWERS}), rounded, and half the logarithm of the factor that is missing.",
            "struct alignas(8) FloatPowerRow {",
            "    float power, correction;",
            "};",
            *records("float_row_powers", "FloatPowerRow", [*map(list, zip(powers, lows, strict=True))], "f"),
            f"// ln(2)/{2 * FLOAT_ROW_POWERS}, rounded, and the remainder.",
            (
                f"inline constexpr float float_row_step[] = {{{step_high.hex()}f, "
                f"{as_float(step - step_high).hex()}f}};"
            ),
            f"inline constexpr float float_row_steps = {as_float(1 / step).hex()}f;  // per unit of half a logarithm",
            "// Q in e^(2r) = 1 + 2 (r + r^2 Q(r)), |r| up to half a step.",
            *float_table("float_row_exp", [as_float(c) for c in square]),
        ]
    )


def limbs(name: str, comment: str, value: mpfr) -> str:
    """Return value as 64-bit limbs, least significant first. The last one is the integer part."""
    scaled = int(gmpy2.floor(gmpy2.mul_2exp(value, 64 * (WIDE_LIMBS - 1))))
    lines = [f"// {comment}, rounded down.", f"inline constexpr uint64_t {name}[{WIDE_LIMBS}] = {{"]
    lines += [f"    0x{scaled >> (64 * i) & (2**64 - 1):016x}," for i in range(WIDE_LIMBS)]
    lines.append("};")
    return "\n".join(lines)


def generate() -> str:
    with gmpy2.context(gmpy2.get_context(), precision=BITS):
        root = gmpy2.sqrt(mpfr(2))
        s_max = (root - 1) / (root + 1)
        z_max = s_max * s_max
        half = mpfr("0.5")
        parts = [
            "// Generated by tools/make_constants.py; do not edit.",
            "#pragma once",
            "",
            "#include <cstdint>",
            "",
            '#include "double_double.h"',
            "",
            "namespace halfulp::HALFULP_ISA::constants {",
            "",
            polynomial(
                "log2_fast",
                "log2((1+s)/(1-s))/s in z = s*s, |s| <= (sqrt 2 - 1)^2",
                LOG2_OF_QUOTIENT,
                mpfr(0),
                z_max,
                6,
                0,
            ),
            log2_table(),
            polynomial(
                "log2_by_table",
                "log2(1+f)/f, -1/32 <= f <= 1/16",
                LOG2_OF_ONE_AND,
                mpfr(-1) / 32,
                mpfr(1) / 16,
                8,
                0,
            ),
            "// The values of exp2_fast are below 2^r by this relative amount, more than all errors of the fast phase.",
            f"inline constexpr double fast_error = {FAST_ERROR.hex()};",
            polynomial("exp2_fast", "2^r (1 - fast_error), |r| <= 1/2", LOWERED_EXP2, -half, half, 9, 0),
            pair_tables(),
            float64_tables(),
            single_tables(),
            half_log_tables(),
            float_pair_tables(),
            float_row_tables(),
        ]
    with gmpy2.context(gmpy2.get_context(), precision=64 * WIDE_LIMBS + 64):
        parts += [
            limbs("ln2", "ln 2", gmpy2.const_log2()),
            limbs("two_over_ln2", "2 / ln 2", 2 / gmpy2.const_log2()),
            "",
            "}  // namespace halfulp::HALFULP_ISA::constants",
            "",
        ]
    return "\n".join(parts)


def generate_float32() -> str:
    with gmpy2.context(gmpy2.get_context(), precision=BITS):
        lines = [
            "// Generated by tools/make_constants.py; do not edit.",
            "#pragma once",
            "",
            "#include <cstdint>",
            "",
            "namespace halfulp::HALFULP_ISA::constants {",
            "",
            float32_tables(),
            "",
            "}  // namespace halfulp::HALFULP_ISA::constants",
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="replace the files in core/numerics")
    if parser.parse_args().write:
        TARGET.write_text(generate(), encoding="ascii")
        OF_FLOAT32.write_text(generate_float32(), encoding="ascii")
    else:
        print(generate())


if __name__ == "__main__":
    main()
