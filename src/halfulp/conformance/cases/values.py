"""Cases with operands paired element by element: ordinary values, special values, hard cases, edges.

Random numbers are the same on every machine and with every NumPy. NumPy keeps the raw stream of a bit
generator from version to version, but not the results of ``Generator``, and exp2 differs by machine. Here
everything comes from the raw stream, by arithmetic that is exact or rounded once.
"""

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from operator import add, eq
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, Group, Mode
from halfulp.conformance.judge import unspecified
from halfulp.operators import pow as exact_pow
from halfulp.specs import OpVersion
from halfulp.types import TYPES, codes, float_type, from_codes, from_integers, integer_range, integers_within

Types = tuple[str, ...]
INF, NAN = np.inf, np.nan


class Random:
    """A stream of random numbers that a text determines."""

    def __init__(self, text: str) -> None:
        self._raw = np.random.PCG64(zlib.crc32(text.encode()))
        self._drawn: list[float] = []

    def words(self, bits: int, count: int) -> Array:
        """Return random uint64 of some bits."""
        return np.asarray(self._raw.random_raw(count)) >> np.uint64(64 - bits)

    def uniform(self, low: float, high: float, count: int) -> Array:
        """Return float64 numbers between low and high."""
        return low + (high - low) * (self.words(53, count).astype(np.float64) * 2.0**-53)

    def one(self, low: float = 0, high: float = 1) -> float:
        """Return one number between low and high; a thousand are drawn at a time."""
        self._drawn = self._drawn or self.uniform(0, 1, 1000).tolist()
        return low + (high - low) * self._drawn.pop()

    def integer(self, low: int, high: int) -> int:
        """Return one integer from low to high."""
        return math.floor(self.one(low, high + 1))

    def integers(self, low: int, high: int, count: int) -> Array:
        """Return int64 numbers from low to high - 1."""
        return np.floor(self.uniform(low, high, count)).astype(np.int64)

    def choose(self, options: Sequence[Any] | Array, count: int) -> Array:
        """Return elements of an array, each with the same probability."""
        options = np.asarray(options)
        return options[self.integers(0, len(options), count)]

    def mixed(self, *arrays: Array) -> Array:
        """Return an array with each element from one of some arrays of one length."""
        return np.asarray(np.choose(self.integers(0, len(arrays), len(arrays[0])), arrays))

    def bits(self, name: str, count: int) -> Array:
        """Return values of a type with random bits, NaNs and infinities among them."""
        words = self.words(TYPES[name].bits, count)
        if TYPES[name].kind == "float":
            return from_codes(words, name)
        return from_integers(map(integer_range(name)[0].__add__, words.tolist()), name)

    def normal(self, count: int) -> Array:
        """Return numbers about 0, most of them within 1 of it (a sum of uniform ones)."""
        return sum((self.uniform(-1, 1, count) for _ in range(3)), np.zeros(count))

    def spread(self, low: float, high: float, count: int) -> Array:
        """Return float64 numbers from 2^low to 2^high, their logarithms uniform."""
        return np.asarray(exact_pow(np.float64(2), self.uniform(low, high, count)))


def cast(values: Array, name: str) -> Array:
    """Return float64 numbers converted to a type: rounded to nearest, clipped to the range of an integer type."""
    if TYPES[name].kind == "float":
        with np.errstate(all="ignore"):
            return values.astype(TYPES[name].dtype)
    numbers = np.rint(np.nan_to_num(values)).ravel().tolist()
    return from_integers(map(int, numbers), name).reshape(values.shape)


def log2(values: Array) -> Array:
    """Return the binary logarithms of magnitudes to about 20 bits, the same on every machine."""
    with np.errstate(all="ignore"):
        fraction, exponent = np.frexp(np.log2(np.abs(values.astype(np.float64))))
    return np.ldexp(np.rint(fraction * 2.0**20) * 2.0**-20, exponent)


def has_sign(name: str) -> bool:
    """Return whether a type has negative numbers."""
    kind = TYPES[name].kind
    return float_type(name).has_zero if kind == "float" else kind == "int"


# --- pairs of operands ---------------------------------------------------------------------------


class Pairs(NamedTuple):
    """Bases or inputs with their exponents or slopes: two 1-d arrays of one length."""

    x: Array
    y: Array


def joined(*parts: Pairs) -> Pairs:
    """Return the pairs of all parts, one after another."""
    return Pairs(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))


def outer(x: Array, y: Array) -> Pairs:
    """Return every element of x with every element of y."""
    return Pairs(np.repeat(x, len(y)), np.tile(y, len(x)))


def pow_values(x_name: str, y_name: str, random: Random, count: int) -> Pairs:
    """Return bases of all ordinary sizes with exponents such that the powers fill the range of the base's type."""
    x = bases(x_name, random, count)
    moderate = cast(random.mixed(random.normal(count) * 4, np.rint(random.normal(count) * 3)), y_name)
    y = random.mixed(exponents(x, y_name, random), moderate)
    # Otherwise most powers of negative bases would be NaN.
    rounded = (x < 0) & random.choose([True, True, True, False], count)
    return Pairs(x, np.where(rounded, cast(np.rint(y.astype(np.float64)), y_name), y))


def prelu_values(name: str, random: Random, count: int) -> Pairs:
    """Return activations of both signs with slopes that networks have, and with others."""
    x = bases(name, random, count)
    flipped = random.choose([True, False], count)
    if TYPES[name].kind == "int":
        x = np.where(flipped, cast(-random.spread(0, TYPES[name].bits - 1, count), name), x)
    elif has_sign(name):
        x = np.where(flipped, -x, x)
    slopes = cast(random.mixed(random.uniform(0, 0.5, count), random.normal(count) * 3), name)
    return Pairs(x, slopes)


def bases(name: str, random: Random, count: int) -> Array:
    """Return moderate numbers, small integers, and numbers from the whole range; one in four is negative."""
    low, high = 0, TYPES[name].bits
    if TYPES[name].kind == "float":
        low, high = float_type(name).least_exponent, float_type(name).greatest_exponent
    wide = random.spread(low, high, count)
    sizes = random.mixed(random.spread(-3.0, 3.0, count), np.rint(random.uniform(0, 20, count)), wide)
    signs = random.choose([1, 1, 1, -1], count) if has_sign(name) else np.ones(count)
    return finite(cast(sizes * signs, name))


def finite(array: Array) -> Array:
    """Return an array with 1 in place of each infinity and NaN."""
    return np.where(np.isfinite(array.astype(np.float64)), array, np.array(1).astype(array.dtype))


def exponents(x: Array, name: str, random: Random, logs: Array | None = None) -> Array:
    """Return exponents with log2 |x^y| near logs, and moderate numbers where x has no such powers."""
    if logs is None:  # from the whole range of x's type, one in four near 0
        row = TYPES[x.dtype.name]
        low, high = 0, row.bits - (row.kind == "int")
        if row.kind == "float":
            low, high = float_type(row.name).least_exponent - 1, float_type(row.name).greatest_exponent
        wide, near = random.uniform(low, high, len(x)), random.normal(len(x))
        logs = np.where(random.choose([True, False, False, False], len(x)), near, wide)
    with np.errstate(all="ignore"):
        y = logs / log2(x)
    return cast(np.where(np.isfinite(y), y, random.normal(len(y)) * 4), name)


# --- exact cases and ties ------------------------------------------------------------------------
#
# A power x^y is representable, or lies exactly midway between two neighbours, only if x = r^(2^f) * 2^e
# with r odd and y = n / 2^f, where 2^f divides e. Then x^y = r^n * 2^(e n / 2^f), and r^n has at most one
# digit more than the type. An algorithm can't decide these cases from an approximation alone.

_MOST_ROOTS = 5  # 3^(2^6) has more digits than any type's significand


@cache  # all operators have the same, and making them takes a while
def exact_pairs(x_name: str, y_name: str, number: int, count: int) -> Pairs:
    """Return at most ``count`` exact cases and ties. Each ``number`` selects others."""
    random = Random(f"exact cases {x_name} {y_name} {number}")
    tried = zip(*(_exact_pair(x_name, random) for _ in range(3 * count)), strict=True)
    (x, has_x), (y, has_y) = map(_nearest, tried, (x_name, y_name))
    return Pairs(x[has_x & has_y][:count], y[has_x & has_y][:count])


def _nearest(numbers: Sequence[Fraction], name: str) -> tuple[Array, Array]:
    """Return numbers converted to a type, and which of them it has."""
    if TYPES[name].kind == "float":
        array = cast(np.array([float(number) if abs(number) < 2**1024 else INF for number in numbers]), name)
        kept = array.astype(np.float64)
    else:
        array = from_integers(map(int, numbers), name)
        kept = array.astype(object)
    return array, np.array(list(map(eq, numbers, kept.tolist())))


def _exact_pair(name: str, random: Random) -> tuple[Fraction, Fraction]:
    """Return x and y, which their types may lack, with an exact power or a tie, anywhere in the range."""
    e = 0
    if TYPES[name].kind != "float":
        f, bits = random.integer(0, _MOST_ROOTS), TYPES[name].bits
        root = int(2 ** random.one(0, bits / 2**f))
        n = random.integer(0, 1 + bits // max(1, root.bit_length() - 1))
    else:
        facts, root = float_type(name), 1
        f = random.integer(0, _MOST_ROOTS) if random.one() < 0.5 else 0
        digits = facts.digits / 2**f  # of an odd root, preferably a small one
        if (limit := 2**digits) > 3 and random.one() >= 0.1:
            root = min(int(2 ** random.one(1, digits)) | 1, int(limit) - 1 | 1)
        n = _exponent_for(root, facts.digits + 1, random)
        if f:
            n = max(n - 1 + n % 2, 1)
        # The result's last digit: at a tie in the subnormal range, or anywhere.
        wanted = facts.least_exponent - 1
        if random.one() > 0.3:
            wanted = random.integer(facts.least_exponent - 2, facts.greatest_exponent)
        e = round(wanted / n) << f if n else 0
    sign = -1 if f == 0 and random.one() < 0.3 else 1
    return sign * Fraction(root ** (1 << f)) * Fraction(2) ** e, Fraction(n, 1 << f)


def _exponent_for(root: int, digits: int, random: Random) -> int:
    """Return an n such that root^n has at most ``digits`` digits, preferably the greatest; any n for root 1."""
    if root == 1:
        magnitude = int(2 ** random.one(0, 8))
        return magnitude if random.one() < 0.5 else -magnitude
    n = 1
    while (root ** (n + 1)).bit_length() <= digits:
        n += 1
    return n if random.one() < 0.5 else random.integer(0, n)


# --- cases of pairs --------------------------------------------------------------------------------


def case_id(row: OpVersion, types: Types, group: Group, name: str) -> str:
    """Return a case's id."""
    return "/".join((row.id, ",".join(types), group, name))


def operand_types(types: Types) -> tuple[str, ...]:
    """Return the types of both operands. An exponent may be an attribute."""
    return (*types, "float32")[:2]


def least_rank(row: OpVersion) -> int:
    """Return the least rank that every rule takes for both operands: in PRelu-6 slopes of rank 1 are channels."""
    return max(2, row.ranks[0]) if row.ranks else 2


def line(row: OpVersion, array: Array) -> Array:
    """Return an array as one line of the least rank: shape (1, n), for most rows."""
    return array.reshape((1,) * (least_rank(row) - 1) + (-1,))


def elementwise(group: Group, row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield the cases of a group of values, element by element.

    The elements that the document leaves open are a separate case, named ``...-open``: a runtime may refuse to compute
    these. In quick mode only the grid that a report shows has it.
    """
    for name, pairs in PAIRS[group](row, types, mode):
        with_open = mode == "full" or name == "grid"
        for suffix, (inputs, attributes) in _parts(row, pairs).items():
            if name == "scaled":
                attributes["ScaleBias"] = _SCALE_BIAS
            id = case_id(row, types, group, name + suffix)
            whole = Case(id, row.id, group, inputs, attributes)
            is_open = np.broadcast_to(unspecified(whole).elements.ravel(), inputs[0].size)
            for ending, chosen in (("", ~is_open), ("-open", is_open)):
                if chosen.any() and (with_open or not ending):
                    some = tuple(line(row, array.ravel()[chosen]) for array in inputs)
                    yield replace(whole, id=id + ending, inputs=some)


def _parts(row: OpVersion, pairs: Pairs) -> dict[str, tuple[tuple[Array, ...], dict[str, Any]]]:
    """Return by a suffix inputs and attributes: all, or the bases of each exponent if that is an attribute."""
    if len(row.inputs) == 2:
        return {"": (tuple(line(row, array) for array in pairs), {})}
    words = codes(pairs.y)  # -0 and 0 are equal, and a NaN is not equal to itself
    parts: dict[str, tuple[tuple[Array, ...], dict[str, Any]]] = {}
    for word in np.unique(words)[::-1]:
        exponent = float(pairs.y[words == word][0])
        parts[f"-y={exponent:.9g}"] = (line(row, pairs.x[words == word]),), {"Exponent": exponent}
    return parts


# --- ordinary values -----------------------------------------------------------------------------

_SETS = {"quick": 1, "full": 4}
_COUNT = 1000
_SCALE_BIAS = (0.75, -0.3)


def values(row: OpVersion, types: Types, mode: Mode) -> Iterator[tuple[str, Pairs]]:
    """Yield ordinary operands: one set, or in full mode four."""
    names = [*map(str, range(_SETS[mode]))]
    if any(attribute.type == "DML_SCALE_BIAS" for attribute in row.attributes):
        names.append("scaled")  # this attribute of DirectML changes the arithmetic
    for name in names:
        yield name, ordinary(row, types, Random(case_id(row, types, "values", name)), _COUNT)


def ordinary(row: OpVersion, types: Types, random: Random, count: int) -> Pairs:
    """Return ordinary operands of a row."""
    if row.kernel == "prelu":
        return prelu_values(types[0], random, count)
    if len(types) == 2:
        return pow_values(*types, random, count)
    exponents = np.array([2, 0.5, 3, -1, 1 / 3, -2.5, 7], np.float32)  # few, as each makes a case
    return Pairs(bases(types[0], random, count), np.resize(exponents, count))


# --- special values ------------------------------------------------------------------------------

_BASES = (-INF, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, INF, NAN)
_EXPONENTS = (-INF, -3, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, 3, INF, NAN)
_SLOPES = (-INF, -1, -0.0, 0, 0.5, 1, INF, NAN)


def special(row: OpVersion, types: Types, mode: Mode) -> Iterator[tuple[str, Pairs]]:
    """Yield the grid that a report shows, all special values, and in full mode all pairs of 8-bit values."""
    x_name, y_name = operand_types(types)
    second = _SLOPES if row.kernel == "prelu" else _EXPONENTS
    yield "grid", outer(chosen(x_name, _BASES), chosen(y_name, second))
    y = specials(y_name)
    if len(types) == 1 and mode == "quick":
        y = y[:: len(y) // 8]  # each is a case of its own
    yield "all", outer(specials(x_name), y)
    if mode == "full" and len(types) == 2 and all(TYPES[name].bits <= 8 for name in types):
        yield "every-pair", outer(every_value(x_name), every_value(y_name))


def chosen(name: str, values: tuple[float, ...]) -> Array:
    """Return the values that a floating type has; of an integer type small integers and the ends of the range."""
    if TYPES[name].kind != "float":
        return integers_within([*integer_range(name), *range(-3, 4)], name)
    given, array = np.array(values), cast(np.array(values), name)
    kept = array.astype(np.float64)
    return np.asarray(array[(codes(kept) == codes(given)) | (np.isnan(kept) & np.isnan(given))])


@cache
def specials(name: str) -> Array:
    """Return zeros, infinities, NaNs, the ends of every range, small numbers, the last odd integers."""
    if TYPES[name].kind != "float":
        least, largest = integer_range(name)
        numbers = {least, least + 1, largest - 1, largest, *range(-5, 12), 16, 31, 32, 33, 63, 64, 65}
        numbers |= {s * (2**k + d) for k in (7, 15, 24, 31, 53, 62, 63) for d in (-1, 0, 1) for s in (1, -1)}
        return integers_within(numbers, name)
    facts = float_type(name)
    magnitudes = {0, 1, 2, facts.least_normal - 1, facts.least_normal, facts.least_normal + 1}
    magnitudes |= {facts.largest - 1, facts.largest, facts.infinity, facts.nan}
    step = 2.0 ** (1 - facts.digits)
    odd = 2.0**facts.digits - 1  # the largest odd integer
    values = [1, 1 + step, 1 - step / 2, 2, 3, 4, 5, 10, 0.5, 0.25, 0.75, 1.5, 2.5, odd, odd + 1, odd / 2]
    values += [2.0**24 + 1, 2.0**31, 2.0**53 - 1, 2.0**63, 2.0**64]
    magnitudes |= {*codes(cast(np.array(values), name)).tolist()}
    fitting = [magnitude for magnitude in magnitudes if 0 <= magnitude < (1 << facts.bits)]
    return from_codes(sorted({code | sign for code in fitting for sign in (0, facts.sign_bit)}), name)


def every_value(name: str) -> Array:
    """Return all values of a type of at most 8 bits."""
    if TYPES[name].kind == "float":
        return from_codes(range(1 << TYPES[name].bits), name)
    return integers_within(range(-128, 256), name)


# --- hard cases ----------------------------------------------------------------------------------

_PACKAGE = Path(__file__).parents[2]
# The build copies the files into the package. The source tree, and with it an editable install, has the originals.
FOLDER = _PACKAGE / "worst_cases"
if not FOLDER.is_dir():
    FOLDER = _PACKAGE.parents[1] / "data" / "worst_cases"


def hard(row: OpVersion, types: Types, mode: Mode) -> Iterator[tuple[str, Pairs]]:
    """Yield the hard cases of these types, powers very near a boundary between two results, if there are any."""
    if row.kernel != "prelu" and len(types) == 2 and len((pairs := hard_pairs(*types)).x):
        yield "0", pairs


@cache
def hard_pairs(x_name: str, y_name: str) -> Pairs:
    """Return all hard cases of these types. A line of a file is: x's bits, y's type, y's bits, # its origin."""
    file = FOLDER / f"{x_name}.txt"
    fields = [line.split("#")[0].split() for line in file.read_text("ascii").splitlines()]
    cases = [part for part in fields if part and part[1] == y_name]
    bits = ([int(part[place], 16) for part in cases] for place in (0, 2))
    return Pairs(*map(from_codes, bits, (x_name, y_name)))


# --- edges ---------------------------------------------------------------------------------------


def edge(row: OpVersion, types: Types, mode: Mode) -> Iterator[tuple[str, Pairs]]:
    """Yield operands near the edges of the type: one set, or in full mode four."""
    x_name, y_name = operand_types(types)
    for number in range(_SETS[mode]):
        random = Random(case_id(row, types, "edge", str(number)))
        if row.kernel == "prelu":
            pairs = prelu_edges(x_name, random)
        elif len(types) == 1:
            # The powers of these bases are near the ends of the range.
            y = random.choose(np.array([2, 3, 0.5, -1, -2.5], np.float32), 400)
            x = np.asarray(exact_pow(np.float64(2), end_logs(x_name, random, 400) / y))
            pairs = Pairs(neighbours(finite(cast(x, x_name)), random), y)
        else:
            x = bases(x_name, random, 500)
            ends = exponents(x, y_name, random, end_logs(x_name, random, 500))
            pairs = joined(
                Pairs(x, neighbours(ends, random)),
                near_one(x_name, y_name, random, 300),
                exact_pairs(x_name, y_name, number, 300),
                parity(x_name, y_name),
                Pairs(random.bits(x_name, 300), random.bits(y_name, 300)),
            )
        yield str(number), pairs


def end_logs(name: str, random: Random, count: int) -> Array:
    """Return binary logarithms near the ends of the range: largest, least normal, and least subnormal number."""
    if TYPES[name].kind == "float":
        facts = float_type(name)
        top, low = facts.greatest_exponent, facts.least_exponent
        ends, unit = [top, top, low + facts.digits - 1, low, low - 1, 0], 2.0 ** (1 - facts.digits)
    else:
        bits = integer_range(name)[1].bit_length()
        ends, unit = [bits, bits, 1, 0], 2.0**-8
    near, steps = random.normal(count) * unit, random.choose([0, 1e-9, -1e-9, 0.3, -0.3], count)
    offsets = random.mixed(near, steps, random.normal(count))
    return random.choose(np.array(ends, float), count) + offsets


def neighbours(y: Array, random: Random) -> Array:
    """Return the numbers, some of them moved to a neighbour of their type."""
    name = y.dtype.name
    steps = random.choose([0, 0, 0, 1, -1, 2], len(y))
    if TYPES[name].kind != "float":
        return from_integers(map(add, map(int, y.astype(object).tolist()), steps.tolist()), name)
    facts = float_type(name)
    if not facts.has_zero:
        return y
    word = codes(y).astype(np.uint64)
    sign, magnitude = (word & np.uint64(mask) for mask in (facts.sign_bit, facts.sign_bit - 1))
    moved = np.clip(magnitude.astype(np.int64) + steps, 0, facts.largest).astype(np.uint64)
    return from_codes(np.where(magnitude > facts.largest, word, moved | sign), name)


def near_one(x_name: str, y_name: str, random: Random, count: int) -> Pairs:
    """Return bases within a few units of +-1, with large exponents: the powers fill the range."""
    if TYPES[x_name].kind == "float" and (facts := float_type(x_name)).has_zero:
        steps = np.rint(random.normal(count) * 4).astype(np.int64)
        magnitudes = np.clip(facts.one + steps, 0, facts.largest).astype(np.uint64)
        signs = random.choose([0, 0, 0, 0, facts.sign_bit], count).astype(np.uint64)
        x = from_codes(magnitudes | signs, x_name)
    else:
        x = bases(x_name, random, count)
    return Pairs(x, exponents(x, y_name, random))


def parity(x_name: str, y_name: str) -> Pairs:
    """Return negative bases with exponents near the largest odd and the largest fractional number of every size."""
    x = cast(np.array([-1.0, -2.0, -0.5, -0.0, 1.0]), x_name)
    if TYPES[x_name].kind == "float" and (facts := float_type(x_name)).has_zero:
        near = from_codes([facts.sign_bit | (facts.one - 1), facts.sign_bit | (facts.one + 1)], x_name)
        x = np.concatenate([x, near])
    values = [2.0**k + d for k in (1, 3, 8, 11, 12, 23, 24, 25, 31, 32) for d in (-1, 0, 1)]
    if TYPES[y_name].kind == "float":
        digits = float_type(y_name).digits
        values += [2.0 ** (digits - s) - 1 for s in (0, 1, 2)] + [2.0**digits, 2.0 ** (digits - 1) - 0.5]
        y = cast(np.array([1.0, -1.0])[:, np.newaxis] * values, y_name).ravel()
    else:
        wide = {*map(int, values), *(2**k + d for k in (52, 53, 54, 62, 63, 64) for d in (-1, 0, 1))}
        y = integers_within(wide | {-value for value in wide}, y_name)
    return outer(x, y)


def prelu_edges(name: str, random: Random) -> Pairs:
    """Return products near the least numbers and the largest, exact ties, zeros; of integers, products that wrap."""
    row = TYPES[name]
    anything = Pairs(random.bits(name, 300), random.bits(name, 300))
    if row.kind != "float":
        largest = integer_range(name)[1]
        x = cast(-random.spread(0, row.bits - 1, 700), name)
        with np.errstate(all="ignore"):
            wanted = float(largest) * random.choose([-1, 1], 700) * (1 + random.normal(700) * 0.1)
            slopes = wanted / x.astype(np.float64)
        return joined(Pairs(x, neighbours(cast(slopes, name), random)), anything)
    facts = float_type(name)
    if not facts.has_zero:
        return anything
    low, high = facts.least_exponent, facts.greatest_exponent
    x = -random.spread(low / 2 - 8, low / 2 + 8, 400)
    least = cast(x, name), cast(random.spread(low - 2, low + facts.digits + 1, 400) / x, name)
    x = -random.spread(high / 2 - 4, high / 2 + 4, 300)
    most = cast(x, name), cast(random.spread(high - 1, high + 1, 300) * random.choose([-1, 1], 300) / x, name)
    # Ties: 3 times an odd significand below 4/3 has one digit more than the type.
    half = 1 << (facts.digits - 1)
    odd = random.integers(half // 2, max(half * 2 // 3, half // 2 + 1), 200) * 2 + 1
    ties = cast(-odd.astype(np.float64), name), cast(random.choose([0.75, 1.5, 3.0, -1.5], 200), name)
    return joined(Pairs(*least), Pairs(*most), Pairs(*ties), anything)


PAIRS: Mapping[Group, Callable[[OpVersion, Types, Mode], Iterator[tuple[str, Pairs]]]]
PAIRS = {"values": values, "special": special, "edge": edge, "hard": hard}
"""The functions that yield the pairs of a group, each with a name."""
