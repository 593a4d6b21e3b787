"""All cases of operator versions, generated from their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from halfulp.conformance import chance, values
from halfulp.conformance.case import Case, Group, Id, Mode, parse
from halfulp.errors import HalfulpError
from halfulp.protocols import Array
from halfulp.specs import OpVersion, find, ids


def cases(
    mode: Mode = "quick",
    operators: Iterable[str] = (),
    versions: Iterable[str] = (),
    types: Iterable[str] = (),
) -> Iterator[Case]:
    """Yield the cases of operator versions, in a stable order; the quick ones are among the full ones.

    Args:
        mode: ``"quick"`` or ``"full"``.
        operators: only these: ids of versions, or operators such as ``"onnx.Pow"`` or ``"Pow"``; all where empty.
        versions: only these versions, such as ``"13"``.
        types: only where an input has one of these types.

    Example:
        >>> next(cases(operators=["onnx.Pow"], versions=["7"], types=["float16"])).id
        'onnx.Pow-7/float16,float16/values/0'
    """
    operators, versions, types = set(operators), set(versions), set(types)
    for row in map(find, ids()):
        names = {row.id, row.name, f"{row.standard}.{row.name}"}
        if (operators and not names & operators) or (versions and row.version not in versions):
            continue
        for pair in type_pairs(row):
            if not types or types & set(pair):
                yield from _of_types(row, pair, mode)


def type_pairs(row: OpVersion) -> Iterator[tuple[str, ...]]:
    """Yield every combination of input types that a row allows.

    Example:
        >>> from halfulp.specs import find
        >>> list(type_pairs(find("onnx.PRelu-7")))
        [('float64', 'float64'), ('float32', 'float32'), ('float16', 'float16')]
    """
    variables = list(dict.fromkeys(port.type for port in row.inputs))
    for chosen in product(*(row.type_variables[variable] for variable in variables)):
        bound = dict(zip(variables, chosen, strict=True))
        yield tuple(bound[port.type] for port in row.inputs)


def _of_types(row: OpVersion, types: tuple[str, ...], mode: Mode) -> Iterator[Case]:
    if len(types) == 2:
        id = Id(row.id, types, "values", "0")
        source = chance.Chance(str(id))
        if row.kernel == "prelu":
            pairs = values.prelu_values(types[0], source, 1000)
        else:
            pairs = values.pow_values(*types, source, 1000)
        rank = max(2, row.limits.ranks[0]) if row.limits else 2
        shape = (1,) * (rank - 1) + (-1,)
        yield Case(str(id), row.id, "values", tuple(a.reshape(shape) for a in pairs))
