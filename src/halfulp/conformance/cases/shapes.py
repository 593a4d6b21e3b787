"""Cases about shapes and attributes: every way to broadcast operands, and everything that a row must refuse.

The same shapes and attributes are tried on every row. The row alone decides which of them are
broadcast cases and which are invalid. Cases of reproducibility have the same elements in other surroundings:
``compared_with`` is the id of the case that such a case is compared with, and ``positions`` maps its elements.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, product, zip_longest
from math import isqrt, prod
from typing import Any, Literal, NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Aspect, Case, Mode
from halfulp.conformance.cases import values
from halfulp.conformance.cases.values import Pairs, Random, Types, case_id, cast, line, ordinary
from halfulp.conformance.judge import unspecified
from halfulp.errors import SpecError
from halfulp.specs import OpVersion, TensorType
from halfulp.specs.model import Attribute
from halfulp.types import TYPES, integer_range, is_float

Shape = tuple[int, ...]

# As the ids of cases spell them.
_SHAPES = {
    "the same shape": "2x3,2x3 scalar,scalar 5,5 2x3x4,2x3x4",
    "one element": "2x3x4,scalar 2x3x4,1 2x3x4,1x1 2x3x4,1x1x1 scalar,1 1,scalar",
    "the last dims": "2x3x4,4 2x3x4,3x4 2x3x4x5,5",
    "the first dims, dims in the middle": "2x3x4,3 2x3x4,2 2x3x4,2x3 2x3x4x5,3 2x3x4x5,3x4 1x2x3x4,2 1x3x1x2,3x1x1",
    "equal dims, where a wrong place shows in the values only": "3x3,3 3x3x3,3 3x3x3,3x3 2x3x3x3,3",
    "dims of 1": "2x3x4,3x1 2x3x4,2x1x4 2x3x4,2x1x1 2x3x4,1x4 2x3,2x1 2x1,1x3 2x1,2x3",
    "a second operand of higher rank, or larger": "3,2x3 2x3,1x2x3 2x3x4,1x1x1x1 scalar,2x3 1,5",
    "no element": "0,0 2x0x3,3 2x0x3,2x0x3 2x0,1 2x0,scalar 0x3,1x3 1,0",
    "four dims and more": "1x1x2x3,1x1x2x3 2x3x2x2,2x3x2x2 1x2x1x2x3,1x2x1x2x3 1x2x1x2x1x2x1x3,1x2x1x2x1x2x1x3"
    " 1x2x1x2x1x2x1x3,2x1x3 1x2x1x2x1x2x1x3,2x2x1x2x1x1 1x1x1x1x1x1x1x1x2,1x1x1x1x1x1x1x1x2",
    "shapes that don't fit": "2x3,2 2x3x4,5 2x3,3x2 6,2x3 2x3x4,4x3 3x4,5x4 1x1x2x3,1x1x2x4 2x0x1x3,2x0x1x3",
}


class Attempt(NamedTuple):
    """Operands and attributes to try, perhaps with a declared output, and the clause that refuses them, if any."""

    name: str
    clause: str | None
    shapes: tuple[Shape, ...]
    types: Types
    attributes: Mapping[str, Any]
    declared: TensorType | None = None


def attempts(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield all shapes with all attributes, each with the row's verdict: ``"2x3x4,3,axis=1,broadcast=1"``."""
    pairs = " ".join(_SHAPES.values()).split()
    for text in dict.fromkeys(",".join(pair.split(",")[: len(row.inputs)]) for pair in pairs):
        shapes = tuple(tuple(map(int, re.findall("[0-9]+", shape))) for shape in text.split(","))
        options = (_options(attribute, len(shapes[0])) for attribute in row.attributes)
        for chosen in product(*map(dict.fromkeys, options)):
            named = zip((attribute.name for attribute in row.attributes), chosen, strict=True)
            attributes = {name: value for name, value in named if value is not None}
            # A tuple is spelled as a shape is.
            spelled = (f"{name}={str(v).strip('()').replace(', ', 'x')}" for name, v in attributes.items())
            yield _attempt(row, types, ",".join([text, *spelled]), shapes, attributes)


def _options(attribute: Attribute, rank: int) -> tuple[Any, ...]:
    """Return the values to try of an attribute; None leaves it out."""
    if attribute.type == "INT" and not attribute.values:  # an axis
        return (None, *range(rank), rank, -1, -rank)
    special = {"INTS": (None, (0, 0)), "FLOAT": (2.0,), "DML_SCALE_BIAS": (None, (0.5, 0.25))}
    return special.get(attribute.type, (None, *attribute.values))


def _attempt(
    row: OpVersion, types: Types, name: str, shapes: Any = (), attributes: Mapping[str, Any] | None = None
) -> Attempt:
    """Return an attempt with the row's verdict, by default with shapes and attributes that every row takes."""
    shapes = shapes or ((*[1] * (values.least_rank(row) - 2), 2, 3),) * len(types)
    if attributes is None:
        attributes = {attribute.name: 2.0 for attribute in row.attributes if attribute.required}
    return Attempt(name, refusal(row, zip(types, shapes, strict=True), attributes), shapes, types, attributes)


def refusal(row: OpVersion, operands: Any, attributes: Mapping[str, Any]) -> str | None:
    """Return the clause that refuses these operands and attributes, or None."""
    try:
        row.infer(*operands, **attributes)
    except SpecError as error:
        return error.clause
    return None


# --- the cases of attempts -----------------------------------------------------------------------

_QUICK = {"broadcast": 3, "invalid": 9}  # the number of cases of the same shapes; of a clause and a kind
_NAMES = ("broadcast", "alpha", "axis")  # attributes that some other version or operator has


def attempted(
    group: Literal["broadcast", "invalid"], row: OpVersion, types: Types, mode: Mode
) -> Iterator[Case]:
    """Yield a case of each attempt that the row allows, or refuses; quick mode takes few that are alike."""
    kinds = (attempts,) if group == "broadcast" else (_shapes, _types, _attributes, _outputs)
    for kind in kinds:
        counts = Counter[object]()
        for attempt in kind(row, types):
            clause, name = attempt.clause, attempt.name
            if (clause is None) != (group == "broadcast"):
                continue
            alike = clause or attempt.shapes
            counts[alike] += 1
            if mode == "quick" and counts[alike] > _QUICK[group]:
                continue
            if clause is not None:  # the name says which it breaches: "C2-2x3,2"
                name = f"{clause.removeprefix(row.id + '.')}-{name}"
            id = case_id(row, types, group, name)
            inputs, attributes = _small_inputs(row, types, attempt, Random(id)), dict(attempt.attributes)
            yield Case(id, row.id, group, inputs, attributes, clause=clause, declared=attempt.declared)


def _small_inputs(row: OpVersion, types: Types, attempt: Attempt, random: Random) -> tuple[Array, ...]:
    """Return ordinary operands, as small as all types of a row have them, in the types and shapes of an attempt."""
    shapes = (*attempt.shapes, attempt.shapes[-1])[:2]
    count = max(1, *map(prod, shapes))
    if TYPES[types[0]].kind == "float":
        pairs = ordinary(row, types, random, count)
    else:  # squares and products of any two are within the type
        x_name, y_name = values.operand_types(types)
        most = min(isqrt(integer_range(x_name)[1]), 11)
        x = random.integers(-most if values.has_sign(x_name) else 0, most + 1, count).astype(np.float64)
        pairs = Pairs(cast(x, x_name), cast(random.choose([0.0, 1.0, 2.0, 2.0], count), y_name))
    x, y = (array[: prod(shape)].reshape(shape) for array, shape in zip(pairs, shapes, strict=True))
    with np.errstate(invalid="ignore"):
        operands = zip((x, y, y), attempt.types, strict=False)  # a third one is too many
        return tuple(cast(operand.astype(np.float64), name) for operand, name in operands)


def _shapes(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield shapes and attributes that the row refuses, each pair of shapes once for a clause; first some far apart."""
    refused: dict[str, dict[tuple[Shape, ...], Attempt]] = {}
    for attempt in attempts(row, types):
        if attempt.clause is not None:
            refused.setdefault(attempt.clause, {}).setdefault(attempt.shapes, attempt)
    for breaches in refused.values():
        step = -(-len(breaches) // _QUICK["invalid"])
        for start in range(step):
            yield from list(breaches.values())[start::step]


def _types(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield types that a variable does not allow, two that should be one, one input fewer, one more; by turns."""
    others = [name for name, element in TYPES.items() if getattr(element, row.format, None) is not None]
    # The common ones first.
    others.sort(key=lambda name: name.startswith(("float8", "float4", "int4", "uint4")))
    bound = [(port.type, name) for port, name in zip(row.inputs, types, strict=True)]
    everywhere = (
        tuple(other if v == variable else name for v, name in bound)
        for variable, _ in bound
        for other in others
    )
    alone = ((*types[:n], other, *types[n + 1 :]) for n in range(len(types)) for other in others)
    turns = []
    for tried in (everywhere, alone):
        of_types = (_attempt(row, names, ",".join(names)) for names in dict.fromkeys(tried))
        turns.append([attempt for attempt in of_types if attempt.clause is not None])
    by_turns = filter(None, chain.from_iterable(zip_longest(*turns)))
    yield from {attempt.types: attempt for attempt in by_turns}.values()
    for number in filter(None, (types[:-1], types + types[-1:])):
        yield _attempt(row, number, f"{len(number)}-inputs")


def _attributes(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield attributes of wrong types and values, missing attributes, unknown attributes."""
    fine = _attempt(row, types, "").attributes
    by_type = {"INT": (2, 1.5, "1"), "INTS": (1.5, "0"), "string": ("bidirectional", 1)}
    known, wrong = {attribute.name for attribute in row.attributes}, list[dict[str, Any]]()
    for attribute in row.attributes:
        if attribute.required:  # then it is missing, and the attempt has no other name
            wrong.append({name: value for name, value in fine.items() if name != attribute.name})
        wrong += [{**fine, attribute.name: value} for value in by_type.get(attribute.type, ("2", 1))]
    wrong += [{**fine, name: 1} for name in _NAMES if name not in known]
    for attributes in wrong:
        changed = ((name, value) for name, value in attributes.items() if fine.get(name) != value)
        name = ",".join(f"{name}={'text:' * isinstance(value, str)}{value}" for name, value in changed)
        yield _attempt(row, types, name or "required", attributes=attributes)


def _outputs(row: OpVersion, types: Types) -> Iterator[Attempt]:
    """Yield outputs that are declared with a wrong type or shape."""
    fine = _attempt(row, types, "")
    shape = fine.shapes[0]
    right = row.infer(*zip(types, fine.shapes, strict=True), **fine.attributes).type
    other = next(name for name in ("float64", "float32") if name != right)
    larger = (*shape[:-1], shape[-1] + 1)
    clause = f"{row.id}.{row.clause('output').id}"
    for name, declared in ((other, (other, shape)), ("x".join(map(str, larger)), (right, larger))):
        yield fine._replace(name=f"output-{name}", clause=clause, declared=TensorType(*declared))


# --- the same elements in other surroundings: their bits should be the same -----------------------

_COUNT = 259  # more than any vector and tile of common code, and odd
_MANY = (1 << 17) + 91  # enough for a runtime to split them over threads, into parts that no vector divides
_ROW = 7  # too short for a vector: every element is in the remainder of a loop
_SHIFTS = {"quick": (3,), "full": (1, 3, 8, 13)}
_LENGTHS = {"quick": (5,), "full": (1, 2, 5, 16, 100)}
_THREADS = {"quick": (2,), "full": (2, 4)}
_EXPONENTS = {"quick": (2.0, 0.5), "full": (2.0, 0.5, 3.0, -1.0, 1 / 3, 7.0)}
_SLOPES = {"quick": (0.25,), "full": (0.25, -1.5, 0.1)}


def reproducibility(row: OpVersion, types: Types, mode: Mode) -> Iterator[Case]:
    """Yield cases in pairs or more: one without ``aspect``, then those that must have its bits."""
    if len(types) != 2:
        return
    base = _case(row, types, "base", _COUNT)
    yield base
    for shift in _SHIFTS[mode]:
        order = np.roll(np.arange(base.inputs[0].size), shift)
        yield _rearranged(base, f"position-{shift}", "position", order)
    for length in _LENGTHS[mode]:
        yield _rearranged(base, f"length-{length}", "length", np.arange(length))
    for name, constants in (("inputs", {0, 1}), (row.inputs[1].name, {1})):
        yield _again(base, f"constant-{name}", "constant folding", constants=frozenset(constants))
    # A line, and its elements as rows that are shorter than a vector and that a broadcast operand separates.
    x, y = (array.ravel() for array in base.inputs)
    x, y = x[: len(x) // _ROW * _ROW], y[:_ROW]
    tiled = (line(row, x), line(row, np.tile(y, len(x) // _ROW)))
    tensor = replace(base, id=case_id(row, types, "reproducibility", "line"), inputs=tiled)
    yield from _fitting(tensor, f"rows-{_ROW}", "position", x.reshape(-1, _ROW), [y, y.reshape(1, -1)])
    many = replace(_case(row, types, "many", _MANY), threads=1)
    yield many
    for threads in _THREADS[mode]:
        yield _again(many, f"threads-{threads}", "threads", threads=threads)
    yield from _scalars(row, types, base, (_SLOPES if row.kernel == "prelu" else _EXPONENTS)[mode])


def _case(row: OpVersion, types: Types, name: str, count: int) -> Case:
    """Return a case of elements that the document does not leave open."""
    id = case_id(row, types, "reproducibility", name)
    random = Random(id)
    pairs = ordinary(row, types, random, min(count, 4 * _COUNT))
    if row.kernel != "prelu" and len((hard := values.hard_pairs(*types)).x):
        # Hard cases in every second place show the least difference in computing.
        chosen = random.integers(0, len(hard.x), len(pairs.x[::2]))
        pairs.x[::2], pairs.y[::2] = hard.x[chosen], hard.y[chosen]
    open_ = unspecified(Case(id, row.id, "reproducibility", tuple(line(row, array) for array in pairs)))
    if not open_.every_element:
        pairs = Pairs(*(array[~open_.elements.ravel()] for array in pairs))
    inputs = tuple(line(row, np.resize(array, count)) for array in pairs)
    return Case(id, row.id, "reproducibility", inputs)


def _again(base: Case, name: str, aspect: Aspect, **changes: Any) -> Case:
    id = case_id(base.row, base.types, "reproducibility", name)
    return replace(base, id=id, aspect=aspect, compared_with=base.id, **changes)


def _rearranged(base: Case, name: str, aspect: Aspect, order: Array) -> Case:
    inputs = tuple(line(base.row, array.ravel()[order]) for array in base.inputs)
    return _again(base, name, aspect, inputs=inputs, positions=order)


def _fitting(tensor: Case, name: str, aspect: Aspect, x: Array, options: list[Array]) -> Iterator[Case]:
    """Yield a case and the one with the first second operand of ``options`` that the document allows, if any."""
    for attributes, y in product(({}, {"broadcast": 1}), options):
        if refusal(tensor.row, (x, y), attributes) is None:
            case = _again(tensor, name, aspect, inputs=(x, y), attributes=attributes)
            if not unspecified(case).whole:
                yield from (tensor, case)
                return


def _scalars(row: OpVersion, types: Types, base: Case, numbers: tuple[float, ...]) -> Iterator[Case]:
    """Yield a tensor with one value everywhere and, where the row allows it, that scalar, fed and constant."""
    x = base.inputs[0]
    for value in numbers:
        number = cast(np.array([value]), types[1])
        # A floating type that lacks this value takes the nearest one.
        if not is_float(number) and number.astype(np.float64)[0] != value:
            continue
        name = f"{value:.4g}"
        id = case_id(row, types, "reproducibility", f"all-{name}")
        tensor = replace(base, id=id, inputs=(x, np.broadcast_to(number, x.shape).copy()))
        pair = [*_fitting(tensor, f"scalar-{name}", "scalar exponent", x, [number.reshape(()), number])]
        yield from pair
        # Compilers replace powers that they know, such as x^2 by x * x.
        for scalar in pair[1:]:
            yield _again(scalar, f"constant-{name}", "constant folding", constants=frozenset({1}))
