"""How exact a runtime's powers are: the share that is misrounded, and the worst error that a search finds.

Operands are drawn from three ranges: ``ordinary`` (bases from 0.01 to 10, exponents from -4 to 4), ``wide`` (bases of
all sizes, with powers of all sizes), and ``hard`` (the hard cases of ``worst_cases``). A search then climbs from the
worst of them: it tries their neighbours, and goes on from the worst of those.
"""

from __future__ import annotations

import csv
import io
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import ASPECTS, Case
from halfulp.conformance.cases import cases
from halfulp.conformance.cases.operands import Pairs, Random, bases, cast, exponents, joined, result_logs
from halfulp.conformance.cases.values import hard_pairs
from halfulp.conformance.examine import Examiner
from halfulp.conformance.floats import codes, float_type, from_codes
from halfulp.conformance.judge import FAULTS, Outcome, decimal, distances
from halfulp.conformance.report import gist
from halfulp.errors import HalfulpError
from halfulp.installed import has_module
from halfulp.operators import instruction_set
from halfulp.operators import pow as exact_pow
from halfulp.types import FLOATS, TYPES

SCHEMA = "halfulp.accuracy/1"
RANGES = ("ordinary", "wide", "hard", "search")
OPERATOR = "onnx.Pow-15"
DEFAULT = ("float64", "float32", "float16", "bfloat16")

_PIECE = 7  # shorter than the vectors of float32
_WHOLE = 1001
_KEPT = 64  # the worst pairs that the search climbs from


@dataclass(frozen=True)
class Range:
    """The results on one range of operands."""

    elements: int
    misrounded: int
    special: int  # elements with an infinity, a NaN or a zero's sign gone wrong
    max_ulp: float  # the error of the worst other element, in ulps of the exact power
    worst: (
        dict[str, str] | None
    )  # that element, or one of ``special`` if there is none: x, y, expected, got and bits


@dataclass(frozen=True)
class TypeAccuracy:
    """The results of one type."""

    type: str
    ranges: dict[str, Range] = field(default_factory=dict)
    special_values: int = 0  # pairs of special values that were tried
    special_wrong: int = 0
    special_example: str = ""
    differs: list[str] = field(default_factory=list)  # the surroundings on which bits depend
    message: str | None = None  # why the type could not be measured


def measure(
    examiner: Examiner,
    types: Iterable[str] = DEFAULT,
    *,
    count: int = 1 << 16,
    rounds: int = 12,
    tell: Callable[[str], None] = lambda line: None,
) -> list[TypeAccuracy]:
    """Measure a target's powers of each type with exponents of that type, but for types that it does not offer.

    Args:
        examiner: the target.
        types: floating types.
        count: the elements of a range.
        rounds: the steps of the search.
        tell: a callback that is called with a line before each part.
    """
    measured = []
    for name in types:
        if name not in FLOATS:
            raise HalfulpError(f"accuracy is measured of floating types, not of {name}")
        if examiner.spec.takes_types(OPERATOR, (name, name)):
            tell(f"{examiner.spec.name}: {name}")
            found = _of_type(examiner, name, count, rounds)
            measured += [] if found is None else [found]
    return measured


def _of_type(examiner: Examiner, name: str, count: int, rounds: int) -> TypeAccuracy | None:
    random = Random(f"accuracy/{name}")
    ordinary = Pairs(cast(random.uniform(0.01, 10, count), name), cast(random.uniform(-4, 4, count), name))
    x = np.abs(bases(name, random, count).astype(np.float64)).astype(TYPES[name].dtype)
    wide = Pairs(x, exponents(x, result_logs(name, random, count), name, random))
    ranges: dict[str, Range] = {}
    seeds: list[Pairs] = []
    for label, pairs in (("ordinary", ordinary), ("wide", wide), ("hard", hard_pairs(name, name))):
        found = _run(examiner, name, pairs)
        if isinstance(found, Outcome):
            return (
                None
                if found.kind == "not offered"
                else TypeAccuracy(name, message=f"{found.kind}: {found.message}")
            )
        ranges[label], worst = _range(name, pairs, found)
        seeds.append(worst)
    ranges["search"] = _search(examiner, name, joined(*seeds), random, count, rounds)
    wrong, tried, example = _special(examiner, name)
    return TypeAccuracy(name, ranges, tried, wrong, example, _surroundings(examiner, name, wide))


def _run(examiner: Examiner, name: str, pairs: Pairs) -> Array | Outcome:
    """Return the target's powers, or the outcome without them."""
    found = examiner.run(Case(f"{OPERATOR}/{name},{name}/values/accuracy", OPERATOR, "values", tuple(pairs)))
    if isinstance(found, str) or (isinstance(found, np.ndarray) and found.dtype != TYPES[name].dtype):
        return Outcome("refused", found if isinstance(found, str) else f"the output is {found.dtype}")
    return found


def _range(name: str, pairs: Pairs, got: Array) -> tuple[Range, Pairs]:
    """Return the results on some pairs, and the worst of them."""
    with np.errstate(all="ignore"):
        expected = np.asarray(exact_pow(*pairs))
        steps, special = distances(expected, got)
        errors = np.where(special, -1, _errors(pairs, expected, got, steps))
    order = np.argsort(-errors, kind="stable")[:_KEPT]
    place = int(order[0]) if len(order) else None
    far = 0.0 if place is None else max(float(errors[place]), 0)
    worst = None
    if special.any() and not far:
        place = int(special.argmax())
    if place is not None and (far or special.any()):
        worst = {
            key: f"{decimal(each)} 0x{int(codes(np.asarray(each))):0{2 * each.itemsize}x}"
            for key, each in zip(
                ("x", "y", "expected", "got"),
                (pairs.x[place], pairs.y[place], expected[place], got[place]),
                strict=True,
            )
        }
        far = _exact_error(pairs.x[place], pairs.y[place], got[place], name) if not special[place] else far
    misrounded = int(((steps > 0) | special).sum())
    return Range(got.size, misrounded, int(special.sum()), far, worst), Pairs(pairs.x[order], pairs.y[order])


def _errors(pairs: Pairs, expected: Array, got: Array, steps: Array) -> Array:
    """Return approximate errors in ulps: exact enough to order elements, by longer arithmetic where NumPy has it."""
    long: Any = np.longdouble
    x, y, near = (array.astype(np.float64).astype(long) for array in (*pairs, got))
    power = np.power(x, y)
    spacing = _spacing(expected)
    errors = np.abs(near - power) / spacing
    return np.where(np.isfinite(errors.astype(np.float64)) & (steps > 0), errors, 0).astype(np.float64)


def _spacing(array: Array) -> Array:
    facts = float_type(array.dtype.name)
    _, exponent = np.frexp(array.astype(np.float64))
    return np.asarray(np.ldexp(np.longdouble(1), np.maximum(exponent - facts.digits, facts.least_exponent)))


def _exact_error(x: Any, y: Any, got: Any, name: str) -> float:
    """Return the error of one power in ulps, by MPFR."""
    gmpy2: Any = import_module("gmpy2")
    facts = float_type(name)
    with gmpy2.context(precision=200, emax=1 << 40, emin=-(1 << 40)):
        power = gmpy2.mpfr(float(x)) ** gmpy2.mpfr(float(y))
        exponent = gmpy2.get_exp(power) if power else facts.least_exponent
        ulp = gmpy2.exp2(max(exponent - facts.digits, facts.least_exponent))
        return float(abs(gmpy2.mpfr(float(got)) - power) / ulp)


def _search(examiner: Examiner, name: str, worst: Pairs, random: Random, count: int, rounds: int) -> Range:
    """Climb from the worst pairs: their neighbours, near and far, are tried, and the worst of all are kept."""
    total = misrounded = special = 0
    best: Range | None = None
    facts = float_type(name)
    for number in range(rounds):
        seeds = [random.choose(np.arange(worst.x.size), count)] if worst.x.size else []
        if not seeds:
            break
        # From a whole binade down to single ulps.
        reach = random.spread(0, max(facts.digits - number, 2), count)
        moved = []
        for array in worst:
            steps = np.rint(reach * random.uniform(-1, 1, count)).astype(np.int64)
            steps = np.where(random.choose([True, False], count), steps, random.integers(-2, 3, count))
            bits = codes(array[seeds[0]]).astype(np.uint64) + steps.view(np.uint64)  # modulo 2^64
            moved.append(from_codes(bits.astype(f"u{array.itemsize}"), name))
        finite = np.isfinite(moved[0].astype(np.float64)) & np.isfinite(moved[1].astype(np.float64))
        pairs = Pairs(*(np.where(finite, each, np.array(1).astype(each.dtype)) for each in moved))
        found = _run(examiner, name, pairs)
        if isinstance(found, Outcome):
            break
        here, candidates = _range(name, pairs, found)
        total, misrounded, special = (
            total + here.elements,
            misrounded + here.misrounded,
            special + here.special,
        )
        if best is None or here.max_ulp > best.max_ulp:
            best = here
        again = joined(candidates, Pairs(worst.x[:_KEPT], worst.y[:_KEPT]))
        worst = Pairs(again.x[: 2 * _KEPT], again.y[: 2 * _KEPT])
    return Range(total, misrounded, special, best.max_ulp if best else 0, best.worst if best else None)


def _special(examiner: Examiner, name: str) -> tuple[int, int, str]:
    """Return how many pairs of special values are wrong, how many there are, and an example."""
    chosen = [
        case for case in cases(operators=[OPERATOR], types=[f"{name},{name}"]) if case.group == "special"
    ]
    results = examiner.examine(chosen)
    example = next((gist(result.entry) for result in results if result.judgement.verdict in FAULTS), "")
    found = [result.judgement for result in results]
    return sum(each.wrong for each in found), sum(each.elements for each in found), example


def _surroundings(examiner: Examiner, name: str, wide: Pairs) -> list[str]:
    """Return the surroundings on which bits depend, by the quick cases, and hard cases in short pieces."""
    chosen = [
        case
        for case in cases(operators=[OPERATOR], types=[f"{name},{name}"])
        if case.group == "reproducibility"
    ]
    differing = _differing(examiner, chosen) | surroundings(
        examiner, OPERATOR, name, joined(hard_pairs(name, name), wide)
    )
    return [aspect for aspect in ASPECTS if aspect in differing]


def _differing(examiner: Examiner, chosen: Iterable[Case]) -> set[str]:
    repetitions = (result.repetition for result in examiner.examine(chosen))
    return {found.aspect for found in repetitions if found is not None and found.same is False}


def surroundings(examiner: Examiner, operator: str, name: str, pairs: Pairs) -> set[str]:
    """Return which of these change the bits of powers: short pieces, and a scalar exponent in place of many.

    Slightly less exact code rounds every second hard case the other way, so that a few of them show whether a runtime
    computes the elements in its vectors and those after the last vector alike.
    """
    x, y = (array[:_WHOLE] for array in pairs)
    id = f"{operator}/{name},{name}/reproducibility/whole"
    return _differing(examiner, [*pieces(id, operator, x, y), *_scalars(operator, name, x)])


def pieces(id: str, operator: str, x: Array, y: Array) -> Iterable[Case]:
    """Yield a case, and then the same elements in many short cases. A scalar y is a constant."""
    constants = frozenset() if y.ndim else frozenset({1})
    yield Case(id, operator, "reproducibility", (x, y), constants=constants)
    for start in range(0, x.size, _PIECE):
        places = np.arange(start, min(start + _PIECE, x.size))
        yield Case(
            f"{id} {start}",
            operator,
            "reproducibility",
            (x[places], y[places] if y.ndim else y),
            constants=constants,
            aspect="position",
            compared_with=id,
            positions=places,
        )


def _scalars(operator: str, name: str, x: Array) -> Iterable[Case]:
    for number in (2, 3, 0.5, -1):
        y = np.array(number).astype(x.dtype)
        id = f"{operator}/{name},{name}/reproducibility/filled {number:g}"
        yield Case(id, operator, "reproducibility", (x, np.full(x.shape, y)))
        yield Case(
            f"{id} once", operator, "reproducibility", (x, y), aspect="scalar exponent", compared_with=id
        )


# --- documents -----------------------------------------------------------------------------------


def document(name: str, versions: dict[str, str], measured: Sequence[TypeAccuracy]) -> dict[str, Any]:
    """Return the results of a target as JSON has them."""
    return {
        "schema": SCHEMA,
        "target": {"name": name, "versions": versions},
        "run": {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{platform.machine()} {instruction_set()}",
        },
        "types": [asdict(each) for each in measured],
    }


HEADERS = ("target", "type", *(f"misrounded, {label}" for label in RANGES[:3]), "worst ulp")
HEADERS += ("special values wrong", "bits depend on")


def table(documents: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return a row of texts for each target and type, below ``HEADERS``."""
    rows = []
    for each in documents:
        versions = each["target"]["versions"]
        version = versions.get(each["target"]["name"]) or next(iter(versions.values()), "")
        for entry in each["types"]:
            cells = [f"{each['target']['name']} {version}".strip(), entry["type"]]
            if entry["message"]:
                rows.append([*cells, entry["message"][:80], *[""] * (len(HEADERS) - 3)])
                continue
            ranges = entry["ranges"].values()
            shares = [
                100 * found["misrounded"] / max(found["elements"], 1)
                for found in list(ranges)[: len(RANGES) - 1]
            ]
            worst = f"{max(found['max_ulp'] for found in ranges):.4g}"
            if any(found["special"] for found in ranges):
                worst += ", and infinities or NaN"
            wrong = f"{entry['special_wrong']} of {entry['special_values']}"
            depends = ", ".join(entry["differs"]) or "nothing"
            rows.append([*cells, *(f"{share:.3g} %" for share in shares), worst, wrong, depends])
    return rows


def worst_pairs(documents: Iterable[dict[str, Any]]) -> list[str]:
    """Return a line for each target and type with its worst pair, by values and bits, and its wrong special value."""
    lines = []
    for each in documents:
        for entry in each["types"]:
            found = max(entry["ranges"].values(), key=lambda one: one["max_ulp"], default=None)
            special = next(
                (one for one in entry["ranges"].values() if one["special"] and not one["max_ulp"]), found
            )
            texts = [_pair(one["worst"]) for one in (found, special) if one is not None and one["worst"]]
            texts += [entry["special_example"]] if entry["special_example"] else []
            if texts:
                lines.append(f"{each['target']['name']}, {entry['type']}: {'; '.join(dict.fromkeys(texts))}")
    return lines


def _pair(worst: dict[str, str]) -> str:
    return "({x}) ^ ({y}) gives {got}, not {expected}".format(**worst)


def as_csv(documents: Iterable[dict[str, Any]]) -> str:
    """Return the table as CSV, with the worst pairs of each range by their bits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*HEADERS, *(f"{label}, worst" for label in RANGES)])
    listed = list(documents)
    entries = [entry for each in listed for entry in each["types"]]
    for row, entry in zip(table(listed), entries, strict=True):
        worst = [(entry["ranges"].get(label) or {}).get("worst") or {} for label in RANGES]
        writer.writerow(
            [*row, *("; ".join(f"{key} {value}" for key, value in each.items()) for each in worst)]
        )
    return text.getvalue()


def check_oracle() -> None:
    """Refuse to measure without MPFR; raises HalfulpError."""
    if not has_module("gmpy2"):
        raise HalfulpError("accuracy needs gmpy2: pip install 'halfulp[check]'")
