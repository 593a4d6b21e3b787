"""Arrays that consist only of cases that are slow in other libraries, and the time that they may take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from halfulp._interop import Array
from halfulp.types import element_type
from side_by_side.peers import Case, constant_power, power

FLOATS = ("float32", "float64", "float16", "bfloat16")

# The classes of N8 (docs/numerics.md): the maximum time of an element, in times of ordinary elements.
SPECIAL, FEW_BITS, INTEGER, HARD = 2.0, 5.0, 10.0, 20.0
# An absolute time instead of such a bound, for cases that occur only if someone searches for them.
CONSTRUCTED = None

_FOLDER = Path(__file__).parents[2] / "data" / "worst_cases"
_DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_LEAST_NORMAL_EXPONENT = {"float64": -1022, "float32": -126, "float16": -14, "bfloat16": -126}


def _case(x: Array, y: Array, type_name: str, size: int) -> Case:
    dtype = element_type(type_name).dtype
    order = np.random.default_rng(7).integers(0, x.size, size)
    return Case("pow", x[order].astype(dtype), y[order].astype(dtype))


def exact(type_name: str, size: int) -> Case:
    """Return powers of small integers that the type represents exactly."""
    pairs = [(x, y) for x in range(2, 16) for y in range(2, 8) if math.log2(x) * y <= _DIGITS[type_name]]
    x, y = np.array(pairs, np.float64).T
    return _case(x, y, type_name, size)


def ties(type_name: str, size: int) -> Case:
    """Return squares of odd integers that have one bit too many, so that each is a tie."""
    digits = _DIGITS[type_name]
    least, most = math.isqrt(1 << digits) + 1, math.isqrt((2 << digits) - 1)
    x = np.arange(least | 1, most + 1, 2)[-4096:].astype(np.float64)
    return _case(x, np.full_like(x, 2), type_name, size)


def specials(type_name: str, size: int) -> Case:
    """Return special cases of IEEE 754: zeros, ones, infinities, NaN, negative bases."""
    values = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -2, 2, 0.5, -0.5, 3, -3])
    x, y = (axis.ravel() for axis in np.meshgrid(values, values))
    return _case(x, y, type_name, size)


def subnormals(type_name: str, size: int) -> Case:
    """Return subnormal bases and subnormal results, half of each."""
    random, count = np.random.default_rng(7), 4096
    lowest = _LEAST_NORMAL_EXPONENT[type_name]
    # A result of 2^r, with r down to some bits below the smallest normal number.
    r = lowest - random.uniform(0.5, _DIGITS[type_name] - 2, count)
    y = random.uniform(1.5, 4, count).astype(element_type(type_name).dtype).astype(np.float64)
    x = np.exp2(r / y)
    fraction = random.uniform(2.0 ** (3 - _DIGITS[type_name]), 0.98, count)
    bases = np.ldexp(fraction, lowest)
    return _case(np.append(x, bases), np.append(y, random.uniform(-0.9, 0.9, count)), type_name, size)


def hard(type_name: str, size: int) -> Case:
    """Return the hard cases of data/worst_cases whose exponent has the base's type."""
    element = element_type(type_name)
    lines = (_FOLDER / f"{type_name}.txt").read_text().splitlines()
    words = [line.split() for line in lines if not line.startswith("#")]
    codes = [(int(x, 16), int(y, 16)) for x, y_type, y, *_ in words if y_type == type_name]
    x, y = np.array(codes, f"u{element.dtype.itemsize}").T.copy().view(element.dtype)
    return _case(x, y, type_name, size)


KINDS = {
    "exact cases": (exact, FEW_BITS),
    "ties": (ties, FEW_BITS),
    "specials": (specials, SPECIAL),
    "subnormals": (subnormals, FEW_BITS),
    "hard cases": (hard, HARD),
}


@dataclass(frozen=True)
class Worst:
    """One row.

    Attributes:
        label: the row's name.
        make: makes the case with the given number of elements.
        beside: makes the ordinary case of these types for the comparison.
        reach: the class, a bound of N8.
        peers: the libraries to measure.
    """

    label: str
    make: Callable[[int], Case]
    beside: Callable[[int], Case]
    reach: float | None
    peers: tuple[str, ...] = ()


def _share(case: Callable[[int], Case], special: float, share: float, size: int) -> Case:
    """Return a case in which a share of the bases, at random places, is special."""
    ordinary = case(size)
    x = ordinary.x.copy()
    x[np.random.default_rng(7).permutation(size)[: max(1, int(size * share))]] = special
    return Case("pow", x, ordinary.y)


def _huge(x_type: str, y_type: str, share: float, size: int) -> Case:
    """Return a case in which a share of the exponents are as large as the type allows."""
    ordinary, most = power(x_type, y_type, size), int(np.iinfo(y_type).max)
    random = np.random.default_rng(7)
    y = np.where(random.random(size) < share, random.integers(most // 2, most, size, y_type), ordinary.y)
    return Case("pow", ordinary.x, y)


def _pair(x_type: str, x: float, y_type: str, y: float | tuple[float, float], size: int) -> Case:
    """Return a case of one base with one exponent, or with many within bounds."""
    most, least = (y[1], y[0]) if isinstance(y, tuple) else (y, y)
    exponents = np.random.default_rng(7).uniform(least, most, size)
    return Case("pow", np.full(size, x, x_type), exponents.astype(y_type))


def _great_integers(x_type: str, log2_of_power: tuple[float, float], size: int) -> Case:
    """Return bases beyond 2^53 that no double represents, with exponents for powers of these sizes."""
    random = np.random.default_rng(7)
    x = random.integers(1 << 53, np.iinfo(x_type).max, size, x_type)
    return Case("pow", x, random.uniform(*log2_of_power, size) / np.log2(x.astype(np.float64)))


def rows() -> Iterator[Worst]:
    """Return all rows, as data."""
    for name in FLOATS:
        for kind, (make, reach) in KINDS.items():
            label = f"{name}, all {kind}"
            yield Worst(label, partial(make, name), partial(power, name, name), reach, ("numpy", "torch"))
        yield from _shares(name)
    yield from _integers()
    yield from _pairs()


def _shares(name: str) -> Iterator[Worst]:
    """Yield special bases among ordinary ones, with arrays of exponents and constants that have a formula."""
    shares = {1.0: "all", 0.5: "half", 1 / 2048: "one in 2048"}
    values = {"NaN": math.nan, "zero": 0.0, "infinite": math.inf}
    ordinary = {name: partial(power, name, name)}
    for exponent, text in {2: "2", 3: "3", 0.5: "0.5"}.items() if name == "float32" else {2: "2"}.items():
        ordinary[text] = partial(constant_power, name, exponent)
    for text, case in ordinary.items():
        for value, special in values.items():
            for share, words in shares.items():
                make = partial(_share, case, special, share)
                yield Worst(f"{name} ** {text}, {words} {value}", make, case, SPECIAL)


def _integers() -> Iterator[Worst]:
    types = [
        ("int64", "int64"),
        ("int32", "int64"),
        ("int32", "int32"),
        ("int8", "int64"),
        ("uint64", "uint64"),
    ]
    for x, y in types:
        for share, words in ((1.0, "all"), (1 / 256, "one in 256")):
            make = partial(_huge, x, y, share)
            yield Worst(f"{x} ** {y}, {words} huge exponents", make, partial(power, x, y), FEW_BITS)
    pairs: list[tuple[str, float, str, float | tuple[float, float], str]] = [
        ("int64", 3, "float64", (26, 39), "3 ** 26 to 39"),
        ("int64", 10, "float64", 13.5, "10 ** 13.5"),
        ("int64", 4, "float64", 0.5, "4 ** 0.5"),
        ("int64", 2, "float64", (62, 63), "2 ** 62 to 63"),
        ("int32", 27, "float64", 1 / 3, "27 ** (1/3)"),
        ("int32", 27, "float32", 1 / 3, "27 ** (1/3)"),
        ("int32", -3, "float64", (-4, 4), "-3 ** -4 to 4"),
    ]
    for x, base, y, exponent, text in pairs:
        make = partial(_pair, x, base, y, exponent)
        yield Worst(f"{x} ** {y}, {text}", make, partial(power, x, y), INTEGER)
    for x in ("int64", "uint64"):
        for bounds, text in (((0, 40), "to 2^40"), ((62, 63), "2^62 to 2^63")):
            make = partial(_great_integers, x, bounds)
            yield Worst(
                f"{x} ** float64, bases beyond 2^53, powers {text}",
                make,
                partial(power, x, "float64"),
                INTEGER,
            )


def _pairs() -> Iterator[Worst]:
    # Ties at half the smallest subnormal number, and cases found by search: an exponent or a base next to an
    # exact one, and the powers nearest to 1 that are not 1.
    pairs = [
        ("float32", "0x1p-1", "float32", "0x1.2cp+7", FEW_BITS),
        ("float32", "0x1p-2", "float32", "0x1.2cp+6", FEW_BITS),
        ("float64", "0x1.fffffffffffffp-1", "float64", "0x1.8p+0", CONSTRUCTED),
        ("float32", "0x1.32cp+0", "float64", "0x1.0935fa5ce815cp-7", CONSTRUCTED),
        ("float32", "0x1.ffe0dap+76", "float32", "-0x1.32fa16p-31", CONSTRUCTED),
        ("float32", "0x1.3ea8bap+94", "float64", "-0x1.f53ba998e9c14p-32", CONSTRUCTED),
    ]
    for x, base, y, exponent, reach in pairs:
        make = partial(_pair, x, float.fromhex(base), y, float.fromhex(exponent))
        yield Worst(f"{x} {base} ** {y} {exponent}", make, partial(power, x, y), reach)


def labels(reach: float | None) -> tuple[str, ...]:
    """Return the rows of a class."""
    return tuple(row.label for row in rows() if row.reach == reach)
