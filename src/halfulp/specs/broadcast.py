"""The broadcasting rules: none, legacy axis, per channel, unidirectional, NumPy's.

A rule is two pure functions of the shapes of X and Y and the attributes:

* ``infer`` returns the output's shape, or raises Mismatch. Dims may be symbols or unknown, and ranks unknown. The
  result is the most precise shape that holds for all their values.
* ``arrange`` returns, for known shapes that ``infer`` has accepted, the shape in which Y must be viewed so that NumPy's
  broadcasting of X and Y follows the rule.

Messages name the operands {x} and {y}, which the row replaces with its own names.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, NamedTuple

from halfulp.types import Dim, Shape

Attributes = Mapping[str, Any]
StaticShape = tuple[int, ...]


class Mismatch(Exception):
    """Shapes that a rule refuses: the failed check, and the message."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(message)
        self.check, self.message = check, message


class Rule(NamedTuple):
    """A broadcasting rule: its name, its text in a sentence, and its two functions."""

    name: str
    text: str
    infer: Callable[[Shape, Shape, Attributes], Shape]
    arrange: Callable[[StaticShape, StaticShape, Attributes], StaticShape] = lambda x, y, attributes: y

    def fits(self, x: Shape, y: Shape, attributes: Attributes = MappingProxyType({})) -> bool:
        """Whether two shapes go together for some values of their unknown dims."""
        try:
            self.infer(x, y, attributes)
        except Mismatch:
            return False
        return True


def _differ(a: Dim, b: Dim) -> bool:
    """Whether two dims cannot be equal; symbols and unknown dims always can."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def _known(a: Dim, b: Dim) -> Dim:
    """The dim a, or b if a is unknown: for dims that must be equal."""
    return b if a is None else a


def _infer_none(x: Shape, y: Shape, attributes: Attributes, unless: str = "") -> Shape:
    if x is None or y is None:
        return y if x is None else x
    if len(x) != len(y) or any(map(_differ, x, y)):
        raise Mismatch("equal shapes", f"{{x}} and {{y}} must have the same shape{unless}")
    # Equal dims: a size is most precise, then a symbol.
    return tuple(b if isinstance(b, int) else _known(a, b) for a, b in zip(x, y, strict=True))


NONE = Rule("none", "The shapes of {x} and {y} are equal.", _infer_none)


def _numpy_dim(a: Dim, b: Dim) -> Dim:
    if 1 in (a, b):
        return b if a == 1 else a
    if _differ(a, b):
        raise Mismatch("shape", "{x} and {y} must be broadcastable to one shape")
    # If one dim is a size, the other is equal to it or 1.
    return next((dim for dim in (a, b) if isinstance(dim, int)), a if a == b else None)


def _infer_numpy(x: Shape, y: Shape, attributes: Attributes) -> Shape:
    if x is None or y is None:
        # An operand of unknown rank may be a scalar or may enlarge the other one.
        return None
    from_the_end = zip_longest(reversed(x), reversed(y), fillvalue=1)
    return tuple(_numpy_dim(a, b) for a, b in from_the_end)[::-1]


NUMPY = Rule(
    "numpy",
    "Multidirectional, as NumPy does it: shapes are aligned at their last dims, a missing dim counts"
    " as 1, and a dim of 1 of either operand is repeated to the size of the other.",
    _infer_numpy,
)


def _infer_unidirectional(x: Shape, y: Shape, attributes: Attributes) -> Shape:
    if x is None or y is None:
        return x
    lead = len(x) - len(y)
    if lead < 0 or any(b != 1 and _differ(a, b) for a, b in zip(x[lead:], y, strict=True)):
        raise Mismatch("shape", "{y} must be unidirectionally broadcastable to {x}")
    # A size of Y that is not 1 is X's size too.
    fills = (b if isinstance(b, int) and b != 1 else None for b in y)
    return x[:lead] + tuple(map(_known, x[lead:], fills))


UNIDIRECTIONAL = Rule(
    "unidirectional",
    "{y} is broadcast to {x}'s shape: shapes are aligned at their last dims, a dim of 1 of {y} is"
    " repeated, and {x} is never enlarged.",
    _infer_unidirectional,
)


def _one_element(y: tuple[Dim, ...]) -> bool | None:
    """Whether a tensor of this shape has one element; None if that is not known."""
    if any(isinstance(dim, int) and dim != 1 for dim in y):
        return False
    return True if all(dim == 1 for dim in y) else None


def _shared_or_channel(x: Any, y: Any, attributes: Attributes) -> Any:
    # A tensor whose dims are symbols may have one element.
    if x is None or y is None or _one_element(y) is not False:
        return ()
    if len(y) == 1 and (len(x) < 2 or _differ(x[1], y[0])):
        raise Mismatch("shape", "{y} must have one element, or one for each channel (dim 1) of {x}")
    return y + (1,) * (len(x) - 2) if len(y) == 1 else y


SHARED_OR_CHANNEL = Rule(
    "shared or per channel",
    "A {y} of one element is shared; a 1-d {y} has one element for each channel, dim 1 of {x}; a {y}"
    " of higher rank is broadcast unidirectionally to {x}.",
    lambda x, y, attributes: _infer_unidirectional(x, _shared_or_channel(x, y, attributes), attributes),
    _shared_or_channel,
)


def _infer_channel_or_numpy(x: Shape, y: Shape, attributes: Attributes) -> Shape:
    if y == ():
        raise Mismatch("rank", "{y} must have rank 1 or more")
    if x is None or y is None:
        return x
    views = (y + (1,) * (len(x) - 2), y) if len(y) == 1 else (y,)
    fitting = list(filter(partial(UNIDIRECTIONAL.fits, x), views)) or [y]
    shapes: list[Any] = [_infer_unidirectional(x, view, attributes) for view in fitting]
    # Either rule may apply: the dims on which both agree are known.
    return tuple(dims[0] if dims[0] == dims[-1] else None for dims in zip(*shapes, strict=True))


CHANNEL_OR_NUMPY = Rule(
    "per channel, else numpy",
    "A 1-d {y} whose dim equals dim 1 of {x} is applied per channel; any other {y} is broadcast by"
    " NumPy's rules to {x}'s shape, which the output keeps.",
    _infer_channel_or_numpy,
    lambda x, y, attributes: y + (1,) * (len(x) - 2) if len(y) == 1 and y == x[1:2] else y,
)


def _infer_legacy_axis(x: Shape, y: Shape, attributes: Attributes) -> Shape:
    if not attributes.get("broadcast", 0):
        return _infer_none(x, y, attributes, " unless broadcast is 1")
    if x is None or y is None:
        return x
    if len(y) > len(x):
        raise Mismatch("shape", "the rank of {y} must not exceed the rank of {x}")
    if _one_element(y) is not False:
        # A Y that may have one element fits any X.
        return x
    start = _start(x, y, attributes)
    differing = [b for a, b in zip(x[start:], y, strict=False) if _differ(a, b)]
    if 1 in differing:
        raise Mismatch("1-dim expansion", "a dim of 1 inside {y} does not expand")
    if differing:
        raise Mismatch("shape", "the shape of {y} must be a contiguous subset of the shape of {x}")
    return x[:start] + tuple(map(_known, x[start:], y)) + x[start + len(y) :]


def _start(x: tuple[Dim, ...], y: tuple[Dim, ...], attributes: Attributes) -> int:
    """The dim of X at which Y's shape starts."""
    axis = attributes.get("axis")
    if axis is None:
        return len(x) - len(y)
    if not isinstance(axis, int) or not -len(x) <= axis < len(x):
        raise Mismatch("attribute axis", "axis must be a dim of {x}")
    start = int(axis) % len(x)
    if start + len(y) > len(x):
        raise Mismatch("attribute axis", "the shape of {y}, starting at axis, must end within {x}")
    return start


def _arrange_legacy_axis(x: StaticShape, y: StaticShape, attributes: Attributes) -> StaticShape:
    if not attributes.get("broadcast", 0):
        return y
    if _one_element(y):
        return ()
    return y + (1,) * (len(x) - len(y) - _start(x, y, attributes))


LEGACY_AXIS = Rule(
    "legacy axis",
    "With broadcast=1, {y} has one element, or a shape that is a contiguous subset of {x}'s, from dim"
    " axis on, or at the end where axis is not set; without it the shapes are equal.",
    _infer_legacy_axis,
    _arrange_legacy_axis,
)


AUTO = Rule(
    "auto_broadcast",
    "auto_broadcast says which: numpy (the default) broadcasts both ways by NumPy's rules; with none"
    " the shapes are equal.",
    lambda x, y, attributes: (
        _infer_numpy if attributes.get("auto_broadcast", "numpy") == "numpy" else _infer_none
    )(x, y, attributes),
)
