"""All cases of operator versions, generated from their rows."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache, partial
from itertools import filterfalse, product
from typing import get_args

from halfulp.conformance.case import GROUPS, Case, Group, Mode, parse
from halfulp.conformance.cases import shapes, values
from halfulp.conformance.cases.values import Types
from halfulp.errors import HalfulpError, did_you_mean
from halfulp.specs import OpVersion, find, ids
from halfulp.specs import operators as named_operators
from halfulp.types import TYPES, element_type

__all__ = ["case", "cases"]

GENERATORS: dict[Group, Callable[[OpVersion, Types, Mode], Iterator[Case]]]
GENERATORS = {group: partial(values.elementwise, group) for group in values.PAIRS}
GENERATORS |= {group: partial(shapes.attempted, group) for group in ("broadcast", "invalid")}
GENERATORS["reproducibility"] = shapes.reproducibility


def cases(
    mode: Mode = "quick",
    operators: Iterable[str] = (),
    versions: Iterable[str] = (),
    types: Iterable[str] = (),
) -> Iterator[Case]:
    """Yield the cases of operator versions, in a stable order. The full cases include the quick ones.

    Values of every kind are tried with every combination of types. Invalid cases are tried with one combination that
    stands for all, and so are shapes and reproducibility in quick mode. Reproducibility of the newest version is also
    tried with every type of 16 bits or more.

    Args:
        mode: ``"quick"`` or ``"full"``.
        operators: only these: ids of versions, or operators such as ``"onnx.Pow"`` or ``"Pow"``; all if empty.
        versions: only these versions, such as ``"13"``.
        types: only where an input has one of these types, or the inputs have a pair of them, "float32,int64".

    Raises:
        HalfulpError: an operator, a version or a type is unknown.

    Example:
        >>> next(cases(operators=["onnx.Pow"], versions=["7"], types=["float16"])).id
        'onnx.Pow-7/float16,float16/values/0'
    """
    rows = selected(operators, versions)
    names = list(map(chosen_types, types))
    newest = {(row.standard, row.name): row for row in rows}
    for row in rows:
        pairs = list(type_pairs(row, names))
        one_for_all = min(pairs, key=lambda pair: {*pair} != {"float32"}, default=())
        once = {"full": {"invalid"}, "quick": {"invalid", "broadcast", "reproducibility"}}[mode]
        for pair, group in product(pairs, GROUPS):
            is_wide = len({*pair}) == 1 and TYPES[pair[0]].bits >= 16
            is_tried = group == "reproducibility" and newest[row.standard, row.name] is row and is_wide
            if pair == one_for_all or group not in once or is_tried:
                yield from GENERATORS[group](row, pair, mode)


def case(id: str) -> Case:
    """Return the case of an id.

    Raises:
        HalfulpError: no case has this id.

    Example:
        >>> case("onnx.Pow-7/float16,float16/broadcast/2x3x4,4").shapes
        ((2, 3, 4), (4,))
    """
    operator, types, group, _ = parse(id)
    row = find(operator)
    if row.id == operator and types in type_pairs(row):
        for mode in get_args(Mode):
            if (case := _generated(operator, types, group, mode).get(id)) is not None:
                return case
    raise HalfulpError(f"no case {id}")


@lru_cache(maxsize=4)
def _generated(operator: str, types: Types, group: Group, mode: Mode) -> dict[str, Case]:
    """Return the cases of a group by their ids; a caller often wants many of one group."""
    return {case.id: case for case in GENERATORS[group](find(operator), types, mode)}


def selected(operators: Iterable[str] = (), versions: Iterable[str] = ()) -> list[OpVersion]:
    """Return the rows of these, by default all but SONNX's, a profile of ONNX; raises HalfulpError if one has none."""
    versions, chosen = tuple(versions), list[OpVersion]()
    for operator in map(str, tuple(operators) or ("onnx", "openvino", "directml")):
        if not (of_operator := named_operators(operator)):
            suggestion = did_you_mean(operator, ("Pow", "PRelu", *ids()))
            raise HalfulpError(f"no operator {operator}; {suggestion}")
        chosen += of_operator
    rows = list(filter(chosen.__contains__, map(find, ids())))
    row_versions = dict.fromkeys(row.version for row in rows)
    for version in filterfalse(row_versions.__contains__, versions):
        raise HalfulpError(f"no version {version}", expected=", ".join(row_versions))
    return [row for row in rows if row.version in (versions or row_versions)]


def chosen_types(name: object) -> str:
    """Return the name of a type, or of a pair of them; raises HalfulpError for an unknown type."""
    if not isinstance(name, str):
        return element_type(name).name
    return ",".join(element_type(part.strip()).name for part in name.split(","))


def type_pairs(row: OpVersion, chosen: Collection[str] = ()) -> Iterator[Types]:
    """Yield the combinations of input types that a row allows, or those with one of the chosen types or pairs."""
    variables = list(dict.fromkeys(port.type for port in row.inputs))
    for types in product(*(row.type_variables[variable] for variable in variables)):
        bound = dict(zip(variables, types, strict=True))
        pair = tuple(bound[port.type] for port in row.inputs)
        if not chosen or any(name == ",".join(pair) or name in pair for name in chosen):
            yield pair
