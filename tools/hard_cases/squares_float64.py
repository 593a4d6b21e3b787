"""float64 squares and square roots at the least possible distance from a midpoint, by square roots modulo 2^k.

The square of a 53-bit X has 105 or 106 bits. It is c units of its last bit from a midpoint if X^2 = 2^(k-1) + c modulo
2^k, where k, 52 or 53, is the number of bits that are rounded off. A square root is near the midpoint N / 2, for an odd
N of 54 bits, if N^2 - c is X * 2^54 or X * 2^55. An odd number is a square modulo 2^k if it is 1 modulo 8, and then has
four square roots.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hard_cases.case import Case, measure

OFFSETS = range(-79, 80)


def search() -> list[Case]:
    """Return all cases with these offsets c."""
    squares = np.array([float(x) for x in square_bases()])
    radicands = np.array([float(x) for x in root_bases()])
    return [
        *measure("float64", squares, np.full(len(squares), 2.0), "square"),
        *measure("float64", radicands, np.full(len(radicands), 0.5), "square root"),
    ]


def square_bases() -> Iterator[int]:
    """Yield X in [2^52, 2^53) whose square is near a midpoint."""
    for bits in (52, 53):
        for c in OFFSETS:
            for root in roots((1 << (bits - 1)) + c, bits):
                for x in (root, root + (1 << 52)):
                    if x.bit_length() == 53 and (x * x).bit_length() == 53 + bits:
                        yield x


def root_bases() -> Iterator[int]:
    """Yield radicands whose square root has 53 bits before the point: X * 2^54 or X * 2^55 over 4."""
    for shift in (54, 55):
        for c in OFFSETS:
            for root in roots(c, shift):
                x = (root * root - c) >> shift
                if root.bit_length() == 54 and x.bit_length() == 53:
                    yield x << (shift - 2)


def roots(square: int, bits: int) -> list[int]:
    """Return the square roots of an odd number modulo 2^bits. There are none unless it is 1 modulo 8."""
    if square % 8 != 1:
        return []
    root = 1
    for k in range(3, bits):  # root is right modulo 2^k; after this step modulo 2^(k+1)
        if (root * root - square) >> k & 1:
            root += 1 << (k - 1)
    modulus = 1 << bits
    half = modulus >> 1
    return sorted({root % modulus, -root % modulus, (root + half) % modulus, (half - root) % modulus})
