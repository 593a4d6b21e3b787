"""Operator versions as rows, and the look-up of a row by id, or by operator and version.

The rows are in ``onnx.py`` (with SONNX's), ``openvino.py`` and ``directml.py``.
"""

import copyreg
import re
from functools import lru_cache
from itertools import chain

from halfulp.errors import UnsupportedError, did_you_mean, named
from halfulp.specs import directml, onnx, openvino
from halfulp.specs.model import Clause, OpVersion, Plan, ScaleBias
from halfulp.types import TensorType

__all__ = ["Clause", "OpVersion", "Plan", "ScaleBias", "TensorType", "find", "ids", "in_force", "operators"]

_ROWS = {row.id: row for row in (*onnx.ROWS, *openvino.ROWS, *directml.ROWS, onnx.SONNX_POW_15)}


def ids() -> tuple[str, ...]:
    """Return the id of every operator version, in the order of the rows."""
    return tuple(_ROWS)


def find(id: str) -> OpVersion:
    """Return the row of an id: for a version between two rows the one in force. Raises UnsupportedError if none is."""
    if not isinstance(id, str):
        raise UnsupportedError(
            "an operator version is named by a string, such as 'onnx.Pow-13'", got=repr(id)[:80]
        )
    if id in _ROWS:
        return _ROWS[id]
    name, _, version = id.partition("-")
    rows = operators(name)
    if rows and not version:
        raise UnsupportedError(f"{id}: the version is missing", expected=", ".join(row.id for row in rows))
    is_version = re.fullmatch("[0-9]{1,9}(_[0-9]{1,9})?", version)
    if not rows or not is_version or name in {row.standard for row in rows}:
        raise UnsupportedError(f"no operator version {id[:80]}; {did_you_mean(id, _ROWS)}")
    return in_force(rows[0].standard, rows[0].name, version)


def operators(name: str) -> tuple[OpVersion, ...]:
    """Return the rows that a name means, whatever its case: those of a standard, an operator, or a version of one.

    Without a standard's name, the name does not mean the rows of SONNX.
    """
    rows = _ROWS.values()
    called = {
        row.id: (row.standard, f"{row.standard}.{row.name}", row.id)
        + ((row.name, f"{row.name}-{row.version}") if row.standard != "sonnx" else ())
        for row in rows
    }
    meaning = named(name, chain.from_iterable(called.values()))
    return tuple(row for row in rows if meaning in called[row.id])


@lru_cache(maxsize=1024)
def in_force(standard: str, name: str, version: int | str) -> OpVersion:
    """Return the newest row of an operator up to a version, such as 13 or "2_0"; raises UnsupportedError if none is."""
    rows = [row for row in _ROWS.values() if (row.standard, row.name) == (standard, name)]  # the oldest first
    if not rows:
        raise UnsupportedError(f"no operator {standard}.{name}")
    asked = _order(str(version))
    in_time = [row for row in rows if _order(row.version) <= asked]
    if not in_time:
        expected = f"{rows[0].version} or later"
        raise UnsupportedError(f"{standard}.{name} has no version {version}", expected=expected)
    return in_time[-1]


def _order(version: str) -> tuple[int, ...]:
    """Return the parts of a version as numbers, so that 10 is sorted after 9, and 5_1 after 5_0."""
    return tuple(map(int, version.split("_")))


# A row is pickled and copied by its id, so that there is one object of each.
copyreg.pickle(OpVersion, lambda row: (find, (row.id,)))
