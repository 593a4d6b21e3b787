"""JSON as DxDispatch reads it, with comments and trailing commas, and fields of which each is checked."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from halfulp.errors import HalfulpError, ModelError, printable

T = TypeVar("T")
Default = TypeVar("Default")

# What is never closed ends with the text, and nothing is tried twice: the time is not to grow with the square of the
# length.
_STRING = r'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?'
_COMMENT = re.compile(rf"({_STRING}|/\*(?:(?!\*/).)*+\Z)|//[^\n]*|/\*.*?\*/", re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


def parse(data: bytes, file: str) -> dict[str, Any]:
    """Return the object that a file holds; raises ModelError, with the name ``file``, where it is none."""
    try:
        text = data.decode("utf-8-sig")
        for pattern in (_COMMENT, _TRAILING_COMMA):
            text = pattern.sub(lambda match: match[1] or " ", text)
        root = json.loads(
            text, object_pairs_hook=_object, parse_int=_int, parse_float=_float, parse_constant=_constant
        )
        if _SURROGATE.search(text):
            json.dumps(root, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise ModelError("not UTF-8, or not a DxDispatch model", file=file) from None
    except UnicodeEncodeError:
        raise ModelError(
            "a text has half of a surrogate pair, which no file can be written with", file=file
        ) from None
    except RecursionError:
        raise ModelError("nests too deep", file=file) from None
    except json.JSONDecodeError as error:
        raise ModelError(
            f"not well-formed JSON, line {error.lineno}, column {error.colno}: {printable(error.msg)}",
            file=file,
        ) from None
    except _Refused as error:
        raise ModelError(str(error), file=file) from None
    if not isinstance(root, dict):
        raise ModelError("not a DxDispatch model: no JSON object", file=file)
    return root


class _Refused(Exception):
    """What well-formed JSON may hold and is refused all the same."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise _Refused(f"the field {printable(twice)!r} is given twice")
    return found


def _int(text: str) -> int | float:
    return int(text) if len(text) <= 20 else _float(text)  # as DxDispatch: beyond 64 bits it is a float


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _Refused(f"the number {printable(text)} is too large")
    return number


def _constant(text: str) -> NoReturn:
    raise _Refused(f'JSON has no {text}; write "nan", "inf" or "-inf"')


def _of(kind: type[T], noun: str) -> Callable[[Any, str], T]:
    def read(value: Any, name: str) -> T:
        if not isinstance(value, kind):
            raise HalfulpError(f"{name} must be {noun}", got=shown(value))
        return value

    return read


mapping = _of(dict, "an object")
array = _of(list, "a list")
text = _of(str, "a string")
boolean = _of(bool, "true or false")


class Fields:
    """The fields of one JSON object, taken one by one; errors name the object as ``what``, and the field."""

    def __init__(self, value: Any, what: str) -> None:
        self._left: dict[str, Any] = dict(mapping(value, what))
        self._what = what

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, read: Callable[[Any, str], T], *default: Default) -> T | Default:
        """Return a field as ``read`` reads it; the default, if there is one, where it is missing."""
        if name not in self._left:
            if default:
                return default[0]
            raise HalfulpError(f"{self._what} has no {name}")
        return read(self._left.pop(name), name)

    def rest(self) -> dict[str, Any]:
        """Return the fields that nobody took."""
        return self._left

    def end(self) -> None:
        """Refuse fields that nobody took: a slip of the pen would silently change the result."""
        for name in self._left:
            raise HalfulpError(f"{self._what} has an unknown field {printable(name)!r}")


def anything(value: Any, name: str) -> Any:
    """Return a value as it is."""
    return value


def uint(value: Any, name: str, bits: int = 64) -> int:
    """Return an integer of so many bits, not negative."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << bits:
        raise HalfulpError(f"{name} must be an unsigned integer of {bits} bits", got=shown(value))
    return value


def uint32(value: Any, name: str) -> int:
    """Return an integer of 32 bits, not negative."""
    return uint(value, name, 32)


def uint32s(value: Any, name: str) -> tuple[int, ...]:
    """Return a list of integers of 32 bits, none negative."""
    return tuple(uint32(item, f"each of {name}") for item in array(value, name))


def number(value: Any, name: str) -> float:
    """Return a float: a number, or one of the words nan, inf and -inf."""
    if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf"):
        return float(value)
    exact = isinstance(value, int | float) and not isinstance(value, bool) and float(value) == value
    if not exact:
        raise HalfulpError(
            f'{name} must be a number that float64 holds, or "nan", "inf", "-inf"', got=shown(value)
        )
    return float(value)


def shown(value: object) -> str:
    """Return a JSON value as errors show it."""
    kinds: Mapping[type, str] = {dict: "an object", list: "a list"}
    return kinds.get(type(value)) or printable(json.dumps(value, ensure_ascii=False))
