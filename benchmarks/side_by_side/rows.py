"""The rows: every case that is measured, as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.types import element_type
from side_by_side import worst
from side_by_side.peers import PEERS, Case, bases, constant_power, exponents, power, prelu
from side_by_side.vectors import VECTORS
from side_by_side.worst import FLOATS

IN_CACHE, OUT_OF_CACHE = "in cache", "out of cache"
CONSTANTS = {
    2: "2",
    3: "3",
    4: "4",
    0.5: "0.5",
    -0.5: "-0.5",
    -1: "-1",
    -2: "-2",
    1.5: "1.5",
    1 / 3: "1/3",
    2.5: "2.5",
}


class Setting(NamedTuple):
    """The setting of a process: the threads, and the instruction set ("" for the best available)."""

    threads: int = 1
    isa: str = ""


LOOPS: dict[Literal["numbers", "chain"], str] = {"numbers": "", "chain": ", each after the last"}
ONE, TWO, AVX2 = Setting(1), Setting(2), Setting(1, "avx2")


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        group: the group of the row.
        label: the row's name within the group.
        place: IN_CACHE, OUT_OF_CACHE, or nothing.
        make: makes the case.
        settings: the settings of the processes that measure it in turns.
        peers: the libraries to measure.
        beside: makes another case to compare the row with. halfulp computes it in the same turns.
        memory: whether to measure the memory's speed, too.
        addition: whether to measure NumPy's addition of the operands, too.
    """

    group: str
    label: str
    place: str
    make: Callable[[], Case]
    settings: tuple[Setting, ...] = (ONE,)
    peers: tuple[str, ...] = PEERS
    beside: Callable[[], Case] | None = None
    memory: bool = False
    addition: bool = False

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.label, self.place)))


def rows(quick: bool = False) -> list[Row]:
    """Return all rows.

    Args:
        quick: use a quarter of the elements out of cache. They still exceed a cache, but not by far.
    """
    sizes = {IN_CACHE: 1 << 16, OUT_OF_CACHE: 1 << (22 if quick else 24)}
    found = [
        *_instruction_sets(sizes[IN_CACHE]),
        *_numbers(),
        *_calls(),
        *_worst(sizes[IN_CACHE]),
    ]
    for place, size in sizes.items():
        found += [
            *_vectors(place, size),
            *_products(place, size),
            *_arrays(place, size),
            *_constants(place, size),
            *_integers(place, size),
            *_mixed(place, size),
        ]
        found += [*_prelu(place, size), *_strided(place)]
        found += list(_layouts(place))
    found += list(_constants_16_bit(OUT_OF_CACHE, sizes[OUT_OF_CACHE]))
    return sorted(found, key=lambda row: GROUPS.index(row.group))


GROUPS = (
    "arrays", "instruction sets", "vector libraries", "one number in C", "constants", "integers", "mixed", "PRelu",
    "strides", "layouts", "worst data", "calls",
)  # fmt: skip


def _arrays(place: str, size: int) -> Iterator[Row]:
    for name in FLOATS:
        beside = partial(power, "float32", "float32", size) if element_type(name).bits == 16 else None
        make = partial(power, name, name, size)
        yield Row("arrays", f"{name} ** {name}", place, make, (ONE, TWO), beside=beside, memory=True)
    for name in FLOATS[:2]:
        yield Row("arrays", f"{name} ** {name}, growth", place, partial(growth, name, size))


def growth(type_name: str, size: int) -> Case:
    """Return compound growth: 1 to 1.1 to the power of 1 to 500, of which the first phases decide fewer powers."""
    random, dtype = np.random.default_rng(7), element_type(type_name).dtype
    return Case("pow", random.uniform(1, 1.1, size).astype(dtype), random.uniform(1, 500, size).astype(dtype))


def _instruction_sets(size: int) -> Iterator[Row]:
    settings = (ONE, AVX2, Setting(1, "scalar"))
    for name in FLOATS:
        yield Row(
            "instruction sets", f"{name} ** {name}", IN_CACHE, partial(power, name, name, size), settings
        )


def _vectors(place: str, size: int) -> Iterator[Row]:
    """Beside libraries for C, which NumPy is not on a processor without AVX-512: there it calls the C library's pow."""
    for name in FLOATS[:2]:
        cases = {"": partial(power, name, name, size)}
        if place == IN_CACHE:
            cases[", 4096 elements"] = partial(power, name, name, 4096)
            cases[", growth"] = partial(growth, name, size)
        for text, make in cases.items():
            label, settings = f"{name} ** {name}{text}", (ONE, AVX2)
            yield Row("vector libraries", label, place, make, settings, peers=("numpy", *VECTORS))


def _numbers() -> Iterator[Row]:
    """One number at a time, as a program in C calls pow: independent ones, and each after the one before."""
    for name in FLOATS[:2]:
        for loop, text in LOOPS.items():
            make = partial(_in_a_loop, name, loop)
            yield Row("one number in C", f"{name} ** {name}{text}", "", make, peers=("libm", "CORE-MATH"))


def _in_a_loop(type_name: str, loop: Literal["numbers", "chain"]) -> Case:
    return replace(power(type_name, type_name, 4096), loop=loop)


def _products(place: str, size: int) -> Iterator[Row]:
    """Powers that are computed by products alone, on a processor without AVX-512."""
    only = (AVX2,)
    cube, integers = partial(constant_power, "float32", 3, size), partial(power, "int64", "int64", size)
    yield Row("instruction sets", "float32 ** 3", place, cube, only, memory=True)
    yield Row("instruction sets", "int64 ** int64", place, integers, only, memory=True)


def _constants(place: str, size: int) -> Iterator[Row]:
    for exponent, text in CONSTANTS.items():
        make = partial(constant_power, "float32", exponent, size)
        beside = partial(power, "float32", "float32", size)
        yield Row("constants", f"float32 ** {text}", place, make, beside=beside, memory=True)


def _constants_16_bit(place: str, size: int) -> Iterator[Row]:
    for name in ("float16", "bfloat16"):
        for exponent in (2, 0.5, -0.5, 2.5, 1 / 3):
            make = partial(constant_power, name, exponent, size)
            yield Row("constants", f"{name} ** {CONSTANTS[exponent]}", place, make, memory=True)


def _integers(place: str, size: int) -> Iterator[Row]:
    for name in ("int32", "int64"):
        make = partial(power, name, name, size)
        yield Row("integers", f"{name} ** {name}", place, make, (ONE, TWO), memory=True)


def _mixed(place: str, size: int) -> Iterator[Row]:
    pairs = [("float32", y) for y in ("int64", "int32", "int8", "uint64", "float64", "float16", "bfloat16")]
    pairs += [("float16", "float32"), ("float16", "int64"), ("bfloat16", "int32"), ("float64", "int64")]
    for x, y in pairs:
        like = x if x == "float64" else "float32"
        yield Row(
            "mixed",
            f"{x} ** {y}",
            place,
            partial(power, x, y, size),
            peers=("numpy", "torch", "onnxruntime", "jax"),
            beside=partial(power, like, like, size),
        )


def _prelu(place: str, size: int) -> Iterator[Row]:
    for name in ("float32", "float16", "bfloat16", "int32", "int8"):
        for kind in ("per channel", "elementwise"):
            for layout in ("NCHW", "NHWC"):
                make = partial(image, name, kind, layout, size)
                yield Row("PRelu", f"PRelu {name}, {kind}, {layout}", place, make, memory=True)


def image(type_name: str, kind: str, layout: str, size: int) -> Case:
    """Return a PRelu of an image with 64 channels.

    Per channel, NHWC means axes in that order. Elementwise, the order of the axes would make no difference,
    so NHWC means arrays in the order NCHW whose memory is in the order NHWC.
    """
    side = math.isqrt(size // 64)
    shape, channels = ((1, 64, side, side), (64, 1, 1)) if layout == "NCHW" else ((1, side, side, 64), (64,))
    if kind == "per channel":
        return prelu(type_name, shape, channels)
    case = prelu(type_name, shape, shape)
    return (
        case
        if layout == "NCHW"
        else Case("prelu", case.x.transpose(0, 3, 1, 2), case.y.transpose(0, 3, 1, 2))
    )


def _strided(place: str) -> Iterator[Row]:
    """In cache a quarter of out of cache's side, so 2^16 elements; out of cache 2^22, as in the bar."""
    side = 256 if place == IN_CACHE else 2048
    rows, columns = (64, 256) if place == OUT_OF_CACHE else (1, 256)
    peers = ("numpy", "torch", "onnxruntime")

    def broadcast() -> Case:
        x = bases("float32", rows * columns).reshape(rows, 1, columns)
        return Case("pow", x, exponents("float32", 256 * columns).reshape(256, columns))

    def broadcast_copied() -> Case:
        x, y = np.broadcast_arrays(broadcast().x, broadcast().y)
        return Case("pow", x.copy(), y.copy())

    def transposed() -> Case:
        x = bases("float32", side * side).reshape(side, side).T
        return Case("pow", x, exponents("float32", side * side).reshape(side, side))

    def transposed_copied() -> Case:
        case = transposed()
        return Case("pow", case.x.copy(), case.y)

    label = f"({rows},1,{columns}) ** (256,{columns})"
    yield Row("strides", label, place, broadcast, peers=peers, beside=broadcast_copied)
    label = f"transposed ({side},{side}) ** contiguous"
    yield Row("strides", label, place, transposed, peers=peers, beside=transposed_copied)


def _layouts(place: str) -> Iterator[Row]:
    """Operands whose elements are in different orders, with many short axes."""
    shapes = (
        {"(2,) * 16": (2,) * 16, "(3,) * 10": (3,) * 10}
        if place == IN_CACHE
        else {"(2,) * 20": (2,) * 20, "(3,) * 12": (3,) * 12}
    )
    for text, shape in shapes.items():
        for reversed_operand in ("base", "exponent"):
            make = partial(_reversed_axes, shape, reversed_operand)
            label = f"{text}, axes of the {reversed_operand} reversed"
            yield Row("layouts", label, place, make, peers=("numpy", "torch"), addition=True)


def _reversed_axes(shape: tuple[int, ...], operand: str) -> Case:
    size = math.prod(shape)
    x, y = bases("float32", size).reshape(shape), exponents("float32", size).reshape(shape)
    return Case("pow", x.T, y) if operand == "base" else Case("pow", x, y.T)


def _worst(size: int) -> Iterator[Row]:
    for row in worst.rows():
        make, beside = partial(row.make, size), partial(row.beside, size)
        yield Row("worst data", row.label, IN_CACHE, make, peers=row.peers, beside=beside)


def _calls() -> Iterator[Row]:
    for returned, label in ((False, "16 elements into out"), (True, "16 elements")):

        def make(returned: bool = returned) -> Case:
            return Case("pow", bases("float32", 16), exponents("float32", 16), returned)

        peers = ("numpy", "torch") if returned else PEERS
        yield Row("calls", label, "", make, peers=peers)
    for name in FLOATS[:3]:
        for count in (1, 4, 16):
            small = partial(_returned, bases(name, count), exponents(name, count))
            yield Row("calls", f"{name}, {count} returned", "", small, (AVX2,), ("numpy",))
    two_floats = partial(_returned, np.array(2.5), np.array(3.5))
    yield Row("calls", "two Python floats", "", two_floats, (AVX2,), ("numpy",))


def _returned(x: Array, y: Array) -> Case:
    return Case("pow", x, y, returned=True)
