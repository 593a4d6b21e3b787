"""How exact a runtime's powers are: the share that is misrounded, and the worst error that a search finds.

Operands are drawn from three ranges: ``ordinary`` (bases from 0.01 to 10, exponents from -4 to 4), ``wide`` (bases of
all sizes, with powers of all sizes), and ``hard`` (the hard cases of ``worst_cases``). A search then climbs from the
worst of them: it tries their neighbours, and goes on from the worst of those. Of a 16-bit type all pairs can be tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import ASPECTS, Case
from halfulp.conformance.cases import cases
from halfulp.conformance.cases.values import Pairs, Random, bases, cast, exponents, hard_pairs, joined, outer
from halfulp.conformance.check import Examiner
from halfulp.conformance.document import machine
from halfulp.conformance.judge import FAULTS, Outcome, distances, shown
from halfulp.conformance.report import gist
from halfulp.errors import HalfulpError
from halfulp.operators import pow as exact_pow
from halfulp.types import FLOATS, TYPES, codes, float_type, from_codes, is_nan, tensor_type

SCHEMA = "halfulp.accuracy/1"
ALL_PAIRS = "all pairs"
RANGES = ("ordinary", "wide", "hard", "search", ALL_PAIRS)
OPERATOR = "onnx.Pow-15"

_PIECE = 7  # shorter than the vectors of float32
_WHOLE = 1001
_KEPT = 64  # the worst pairs that the search climbs from
_BASES = 16  # the number of bases in a part of all pairs
_EVERY = 1 << 16


@dataclass(frozen=True)
class Range:
    """The results on one range of operands."""

    elements: int = 0
    misrounded: int = 0
    special: int = 0  # elements with an infinity, a NaN or a zero's sign gone wrong
    max_ulp: float = 0  # the error of the worst other element, in ulps of the exact power
    # That element, or one of ``special`` if nothing else is wrong: x, y, expected and got, as decimal and bits.
    worst: Mapping[str, str] | None = None

    def __add__(self, other: Range) -> Range:
        farther, nearer = (self, other) if self.max_ulp >= other.max_ulp else (other, self)
        elements, misrounded = self.elements + other.elements, self.misrounded + other.misrounded
        special = self.special + other.special
        return Range(elements, misrounded, special, farther.max_ulp, farther.worst or nearer.worst)


@dataclass(frozen=True)
class TypeAccuracy:
    """The results of one type."""

    type: str
    ranges: dict[str, Range] = field(default_factory=dict)
    special_values: int = 0  # pairs of special values that were tried
    special_wrong: int = 0
    special_example: str = ""
    differs: Sequence[str] = field(default_factory=list)  # the surroundings on which bits depend
    message: str | None = None  # why the type could not be measured

    @property
    def is_complete(self) -> bool:
        """Whether Ctrl-C did not end the measurement of all pairs."""
        return self.ranges.get(ALL_PAIRS, Range(_EVERY**2)).elements == _EVERY**2


def measure(
    examiner: Examiner,
    types: Iterable[str],
    *,
    count: int,
    rounds: int,
    exhaustive: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> list[TypeAccuracy]:
    """Measure a target's powers of each floating type that it offers, with exponents of that type.

    A range has ``count`` elements, and the search ``rounds`` steps. ``exhaustive`` tries all pairs of 16-bit types,
    too, until Ctrl-C. ``tell`` gets a line before each part.
    """
    measured: list[TypeAccuracy] = []
    for name in types:
        if name not in FLOATS:
            raise HalfulpError(f"accuracy is measured of floating types, not of {name}")
        if not examiner.spec.takes_types(OPERATOR, (name, name)):
            continue
        tell(f"{examiner.spec.name}: {name}")
        if (accuracy := _of_type(examiner, name, count, rounds)) is None:
            continue  # it is not offered
        if exhaustive and TYPES[name].bits == 16 and accuracy.message is None:
            accuracy.ranges[ALL_PAIRS] = _all_pairs(examiner, name, tell)
        measured.append(accuracy)
        if not accuracy.is_complete:
            break
    return measured


def _of_type(examiner: Examiner, name: str, count: int, rounds: int) -> TypeAccuracy | None:
    random, hard = Random(f"accuracy/{name}"), hard_pairs(name, name)
    ordinary = Pairs(cast(random.uniform(0.01, 10, count), name), cast(random.uniform(-4, 4, count), name))
    x = np.abs(bases(name, random, count).astype(np.float64)).astype(TYPES[name].dtype)
    wide = Pairs(x, exponents(x, name, random))
    ranges, seeds = dict[str, Range](), list[Pairs]()
    for label, pairs in zip(RANGES, (ordinary, wide, hard), strict=False):
        got = _run(examiner, name, pairs)
        if isinstance(got, Outcome):
            message = f"{got.kind}: {got.message}"
            return None if got.kind == "not offered" else TypeAccuracy(name, message=message)
        ranges[label], worst = _range(name, pairs, got)
        seeds.append(worst)
    ranges["search"] = _search(examiner, name, joined(*seeds), random, count, rounds)
    quick = list(cases(operators=[OPERATOR], types=[f"{name},{name}"]))
    results, again = (
        examiner.examine([case for case in quick if case.group == group])
        for group in ("special", "reproducibility")
    )
    entries = [result.entry for result in results]
    example = next((gist(entry) for entry in entries if entry["verdict"] in FAULTS), "")
    wrong, tried = (sum(entry[key] for entry in entries) for key in ("wrong", "elements"))
    differing = {result.aspect for result in again if result.same is False}
    differing |= surroundings(examiner, OPERATOR, name, joined(hard, wide))
    return TypeAccuracy(name, ranges, tried, wrong, example, sorted(differing, key=ASPECTS.index))


def _run(examiner: Examiner, name: str, pairs: Pairs) -> Array | Outcome:
    """Return the target's powers, or the outcome without them."""
    got = examiner.run(Case(f"{OPERATOR}/{name},{name}/values/accuracy", OPERATOR, "values", tuple(pairs)))
    if isinstance(got, np.ndarray) and tensor_type(got) != tensor_type(pairs.x):
        return Outcome("wrong", f"the output is {tensor_type(got)}")
    return got


def _range(name: str, pairs: Pairs, got: Array) -> tuple[Range, Pairs]:
    """Return the results on some pairs, and the worst of them."""
    with np.errstate(all="ignore"):
        expected = np.asarray(exact_pow(*pairs))
        steps, special = distances(expected, got)
        errors = np.where(special, -1, 0).astype(np.float64)
        errors[steps > 0] = _errors(*(array[steps > 0] for array in (*pairs, expected, got)))
    order = np.argsort(-errors, kind="stable")[:_KEPT]
    far, worst = 0.0, None
    if special.any() or (errors > 0).any():
        place = int(order[0]) if errors[order[0]] > 0 else int(special.argmax())
        columns = {"x": pairs.x, "y": pairs.y, "expected": expected, "got": got}
        worst = {name: " ".join(shown(column[place]).values()) for name, column in columns.items()}
        if not special[place]:
            far = _exact_error(pairs.x[place], pairs.y[place], got[place], name)
    misrounded, wrong = int(((steps > 0) | special).sum()), int(special.sum())
    return Range(got.size, misrounded, wrong, far, worst), Pairs(pairs.x[order], pairs.y[order])


def _errors(x: Array, y: Array, expected: Array, got: Array) -> Array:
    """Return approximate errors in ulps: exact enough to order elements, by longer arithmetic where NumPy has it."""
    long: Any = np.longdouble
    facts = float_type(expected.dtype.name)
    _, exponent = np.frexp(expected.astype(np.float64))
    spacing = np.ldexp(long(1), np.maximum(exponent - facts.digits, facts.least_exponent))
    x, y, near = (array.astype(np.float64).astype(long) for array in (x, y, got))
    errors = (np.abs(near - np.power(x, y)) / spacing).astype(np.float64)
    return np.where(np.isfinite(errors), errors, 0)


def _exact_error(x: Any, y: Any, got: Any, name: str) -> float:
    """Return the error of one power in ulps, by MPFR."""
    gmpy2: Any = import_module("gmpy2")
    facts = float_type(name)
    with gmpy2.context(precision=200, emax=1 << 40, emin=-(1 << 40)):
        power = gmpy2.mpfr(float(x)) ** gmpy2.mpfr(float(y))
        exponent = gmpy2.get_exp(power) if power else facts.least_exponent
        ulp = gmpy2.exp2(max(exponent - facts.digits, facts.least_exponent))
        return float(abs(gmpy2.mpfr(float(got)) - power) / ulp)


@np.errstate(invalid="ignore")  # signalling NaNs
def _search(examiner: Examiner, name: str, worst: Pairs, random: Random, count: int, rounds: int) -> Range:
    """Climb from the worst pairs: their neighbours, near and far, are tried, and the worst of all are kept."""
    total, facts = Range(), float_type(name)
    for number in range(rounds if worst.x.size else 0):
        seeds = random.choose(np.arange(worst.x.size), count)
        # From a whole binade down to single ulps.
        reach = random.spread(0, max(facts.digits - number, 2), count)
        moved = []
        for array in worst:
            steps = np.rint(reach * random.uniform(-1, 1, count)).astype(np.int64)
            steps = np.where(random.choose([True, False], count), steps, random.integers(-2, 3, count))
            bits = codes(array[seeds]).astype(np.uint64) + steps.view(np.uint64)  # modulo 2^64
            moved.append(from_codes(bits.astype(f"u{array.itemsize}"), name))
        finite = np.isfinite(moved[0].astype(np.float64)) & np.isfinite(moved[1].astype(np.float64))
        pairs = Pairs(*(np.where(finite, array, np.array(1).astype(array.dtype)) for array in moved))
        got = _run(examiner, name, pairs)
        if isinstance(got, Outcome):
            break
        here, candidates = _range(name, pairs, got)
        total += here
        worst = joined(candidates, Pairs(worst.x[:_KEPT], worst.y[:_KEPT]))
    return total


def _all_pairs(examiner: Examiner, name: str, tell: Callable[[str], None]) -> Range:
    """Return the results on all pairs of a 16-bit type, or on those before Ctrl-C."""
    total = Range()
    values = from_codes(np.arange(_EVERY), name).copy()
    # Quiet ones alone: a signalling NaN may give a NaN as a power of 0, too (IEEE 754-2019 6.2).
    values[is_nan(values)] = from_codes(float_type(name).nan, name)
    try:
        while total.elements < _EVERY**2:
            tell(f"{examiner.spec.name}: {name}, {total.elements / _EVERY**2:.1%} of all pairs")
            first = total.elements // _EVERY
            pairs = outer(values[first : first + _BASES], values)
            got = _run(examiner, name, pairs)
            if isinstance(got, Outcome):
                raise HalfulpError(f"{examiner.spec.name}, {name}: {got.kind}: {got.message}")
            total += _range(name, pairs, got)[0]
    except KeyboardInterrupt:
        tell("interrupted")
    return total


def surroundings(examiner: Examiner, operator: str, name: str, pairs: Pairs) -> set[str]:
    """Return which of these change the bits of powers: short pieces, and a scalar exponent in place of many.

    Slightly less exact code rounds every second hard case the other way, so that a few of them show whether a runtime
    computes the elements in its vectors and those after the last vector alike.
    """
    x, y = (array[:_WHOLE] for array in pairs)
    id = f"{operator}/{name},{name}/reproducibility"
    tried = [*pieces(f"{id}/whole", operator, x, y)]
    for number in (2, 3, 0.5, -1):
        scalar = np.array(number).astype(x.dtype)
        filled = Case(f"{id}/filled {number:g}", operator, "reproducibility", (x, np.full(x.shape, scalar)))
        once = replace(filled, id=f"{filled.id} once", inputs=(x, scalar))
        tried += [filled, replace(once, aspect="scalar exponent", compared_with=filled.id)]
    return {result.aspect for result in examiner.examine(tried) if result.same is False}


def pieces(id: str, operator: str, x: Array, y: Array) -> Iterable[Case]:
    """Yield a case, and then the same elements in many short cases. A scalar y is a constant."""
    whole = Case(id, operator, "reproducibility", (x, y), constants=frozenset() if y.ndim else frozenset({1}))
    yield whole
    for start in range(0, x.size, _PIECE):
        places = np.arange(start, min(start + _PIECE, x.size))
        inputs = (x[places], y[places] if y.ndim else y)
        piece = replace(whole, id=f"{id} {start}", inputs=inputs, positions=places)
        yield replace(piece, aspect="position", compared_with=id)


# --- documents -----------------------------------------------------------------------------------


def document(name: str, versions: dict[str, str], measured: Sequence[TypeAccuracy]) -> dict[str, Any]:
    """Return the results of a target as JSON has them."""
    return {
        "schema": SCHEMA,
        "target": {"name": name, "versions": versions},
        "run": {"date": datetime.now(UTC).date().isoformat(), "machine": machine()},
        "types": [asdict(accuracy) for accuracy in measured],
    }


def table(documents: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return the headers, and a row of texts for each target and type."""
    entries = [(document["target"], entry) for document in documents for entry in document["types"]]
    shares = [*RANGES[:3], *[ALL_PAIRS] * any(ALL_PAIRS in entry["ranges"] for _, entry in entries)]
    headers = ["target", "type", *(f"misrounded, {label}" for label in shares)]
    headers += ["worst ulp", "special values wrong", "bits depend on"]
    rows = [headers]
    for target, entry in entries:
        version = target["versions"].get(target["name"]) or next(iter(target["versions"].values()), "")
        cells = [f"{target['name']} {version}".strip(), entry["type"]]
        cells += [entry["message"][:80]] if entry["message"] else _cells(entry, shares)
        rows.append(cells + [""] * (len(headers) - len(cells)))
    return rows


def _cells(entry: Mapping[str, Any], shares: Sequence[str]) -> list[str]:
    """Return the results of one type as texts."""
    ranges, results = entry["ranges"], map(entry["ranges"].get, shares)
    cells = [f"{100 * one['misrounded'] / max(one['elements'], 1):.3g} %" if one else "" for one in results]
    special = ", and infinities or NaN" * any(results["special"] for results in ranges.values())
    worst = f"{max(results['max_ulp'] for results in ranges.values()):.4g}{special}"
    special_values = f"{entry['special_wrong']} of {entry['special_values']}"
    return [*cells, worst, special_values, ", ".join(entry["differs"]) or "nothing"]


def worst_pairs(documents: Iterable[dict[str, Any]]) -> list[str]:
    """Return a line for each target and type with its worst pair, by values and bits, and its wrong special value."""
    lines = []
    for name, entry in ((each["target"]["name"], entry) for each in documents for entry in each["types"]):
        ranges = entry["ranges"].values()
        far = max(ranges, key=lambda results: results["max_ulp"], default={"worst": None})
        # One with a special value gone wrong, too.
        special = next((results for results in ranges if results["special"] and not results["max_ulp"]), far)
        pairs = filter(None, (results["worst"] for results in (far, special)))
        texts = ["({x}) ^ ({y}) gives {got}, not {expected}".format(**pair) for pair in pairs]
        if text := "; ".join(dict.fromkeys(filter(None, [*texts, entry["special_example"]]))):
            lines.append(f"{name}, {entry['type']}: {text}")
    return lines
