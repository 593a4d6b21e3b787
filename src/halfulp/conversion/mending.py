"""The one meaning that a broken Pow or PRelu node can have: its attributes, its types, its shapes.

Each rule takes a node that breaks a clause of its version and returns one that does not, or raises NoExactForm with the
choices. A rule that could change a value says so in its line.
"""

import shlex
from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import Any

import onnx
from onnx import GraphProto, NodeProto

from halfulp.conversion.editor import Editor, NoExactForm, exactly_as, from_legacy, holds, settle, to_legacy
from halfulp.conversion.opset import NEWEST
from halfulp.conversion.walk import breach
from halfulp.errors import HalfulpError
from halfulp.models.graph import MOST_DIMS, Value
from halfulp.models.onnx.infer import without_made_up
from halfulp.models.onnx.walk import attributes_of
from halfulp.specs import OpVersion, in_force
from halfulp.specs.broadcast import NUMPY
from halfulp.types import FLOATS, TYPES, Dim, Shape, format_shape

Dims = tuple[Dim, ...]
Slopes = str | int | Mapping[str, str | int]
Asked = str | int | None


class Mender:
    """Mends the nodes of a model, along the dims that are asked for slopes: for all, or by the names of nodes."""

    def __init__(self, slopes: Slopes | None, *, may_raise: bool = True) -> None:
        self.of_node: Mapping[str, str | int] = slopes if isinstance(slopes, Mapping) else {}
        self.slopes = None if isinstance(slopes, Mapping) else slopes  # for all other nodes
        for where in (*self.of_node.values(), "last" if self.slopes is None else self.slopes):
            if where not in ("channel", "last") and (not isinstance(where, int) or isinstance(where, bool)):
                expected = "channel, last or an integer"
                raise HalfulpError("no such dim for slopes", expected=expected, got=repr(where)[:80])
        self._may_raise = may_raise  # whether a node may need a newer opset than the model's
        self.opset = 0  # the newest that a node needs
        self.per_channel = set[int]()  # the ranks of X where slopes can only be meant for each channel
        self.doubtful = dict[str, str]()  # why nodes that are valid may be meant otherwise
        self.found = set[str]()  # the names of of_node that the model has
        # The reshaped slopes by graph, name and shape: nodes that share a slope share its new shape.
        self._reshaped: dict[tuple[Editor, str, Dims], str] = {}

    def mend(self, node: NodeProto, edit: Editor) -> None:
        """Add a node, mended if it breaks a clause; raise NoExactForm if it can have several meanings, or none."""
        names = node.name, edit.label, edit.label.partition(" (")[0]  # as a user may write it
        asked = [self.of_node[name] for name in names if name in self.of_node]
        self.found |= self.of_node.keys() & {*names}
        row, back = in_force("onnx", node.op_type, edit.opset), None
        broken = breach(node, edit.scope, row)
        whole = len(node.input) == len(row.inputs) and all(node.input) and len(node.output) == 1
        new = deepcopy(node)
        if broken is not None and whole:
            _attributes(new, row, edit)
            row, back = self._types(new, row, edit)
            if row.broadcasting.name == "legacy axis":
                _legacy_broadcast(new, row, edit)
        if node.op_type == "PRelu" and whole:
            rank = len(edit.value(node.input[0]).shape or ())
            asked += [] if self.slopes is None else [self.slopes]
            # No version has an axis.
            asked += [a.i for a in node.attribute if a.name == "axis" and -rank <= a.i < rank]
            if (axis := self._axis(new, row, next(iter(asked), None), edit)) is not None:
                self._place(new, row, axis, edit)
        if (still := breach(new, edit.scope, row)) is not None:
            raise NoExactForm(still.line)
        if int(row.version) > edit.opset:
            self.opset = max(self.opset, int(row.version))
        return edit.keep(new) if back is None else edit.keep_cast(new, edit.type_of(new.input[0]), back)

    def _types(self, node: NodeProto, row: OpVersion, edit: Editor) -> tuple[OpVersion, str | None]:
        """Cast the operands to types that a version takes together; return it, and the type of X if X is cast, too."""
        x, y = map(edit.type_of, node.input)
        bases, others = _allowed(row)
        one_type = not others
        if y == "bool" and x in TYPES:  # torch's exporter writes such exponents
            y = x if one_type else "int32"
            noun = "exponent" if node.op_type == "Pow" else "slope"
            edit.note(f"the {noun} is cast from bool to {y}, exactly")
            node.input[1] = edit.cast(node.input[1], y)
        if x in bases and y in (wanted := others or (x,)):
            return row, None
        if {x, y} - TYPES.keys():
            raise NoExactForm(f"no version of {node.op_type} takes {x} with {y}")
        is_constant = edit.array(node.input[1]) is not None
        base = edit.array(node.input[0]) if one_type and y in bases and not is_constant else None
        held = None if base is None else exactly_as(base, y)
        if held is not None and edit.value(node.output[0]).type in (None, x, y):
            edit.note(f"X, a constant in {x}, is stored in {y}, exactly")
            node.input[0] = edit.constant(held, "base")
            return row, None
        if x in bases and (one_type or is_constant) and settle(node, wanted, edit, x=x):
            return row, None
        if (newer := self._newer(node, x, y, edit)) is not None:
            return newer, None
        if x not in bases:
            _widen(node, row, x, y, edit)
            return row, x
        if one_type and x not in FLOATS and y in FLOATS:
            said = f"the slope is one of {y}, and {x}, the type of X and of the result, does not hold it"
            raise NoExactForm(f"{said}; a Cast of X to {y} before the node gives a result in {y}")
        settle(node, wanted, edit, x=x, may_round=True)
        return row, None

    def _newer(self, node: NodeProto, x: str, y: str, edit: Editor) -> OpVersion | None:
        """Return the oldest newer version that takes these types, and note that the model needs its opset."""
        for opset in range(edit.opset + 1, NEWEST + 1) if self._may_raise else ():
            bases, others = _allowed(row := in_force("onnx", node.op_type, opset))
            if x in bases and y in (others or (x,)):
                types = x if x == y else f"{x} with {y}"
                first = f"the first in which {node.op_type} takes {types}"
                why = "its exponent is an input with a default; " * edit.scope.is_default(node.input[1])
                edit.note(f"{why}stays unchanged in opset {opset}, {first}")
                return row
        return None

    def _axis(self, node: NodeProto, row: OpVersion, asked: Asked, edit: Editor) -> int | None:
        """Return the dim of X, counted from the last one, that a slope is to go along; None for the dim that it has."""
        x, slope = map(edit.value, node.input)
        size, name = _size(slope), node.name or edit.label
        if not row.broadcasting.fits(x.shape, slope.shape, attributes_of(node)):
            return -1 if size == 1 else _dim_of_slope(x, slope, asked, name)
        if row.broadcasting.name != "unidirectional" or size is None or size == 1:
            return None
        own = edit.shape_of(node.input[1], "")
        axis = self._other_axis(x.shape, size, own.index(size) - len(own), asked, name)
        if isinstance(axis, str):
            self.doubtful[edit.label] = f"the slope of shape {_text(slope.shape)}: {axis}"
            return None
        return axis

    def _other_axis(self, dims: Shape, size: int, now: int, asked: Asked, name: str) -> int | str | None:
        """Return what ``_axis`` does of a valid slope at the dim ``now``, or the doubt about it."""
        if dims is None:
            if isinstance(asked, int) and asked < 0:
                if asked < -MOST_DIMS:
                    raise NoExactForm(f"X has no dim {asked}: NumPy's arrays have {MOST_DIMS} at most")
                return None if asked == now else asked
            if now < -1 or asked == "last":
                return None
            if asked == "channel" and len(self.per_channel) == 1:
                return 1 - min(self.per_channel)  # the rank at the model's other slopes
            per_channel = f"--slopes {shlex.quote(f'{name}=-3')} is per channel if X is [N, C, H, W]"
            others = "-2 if it is [N, C, L]; --slopes last keeps it"
            needed = f"X must have {size} elements in its last dim, and its shape is not known"
            return f"{needed}; {per_channel}, {others}"
        rank, here = len(dims), dims[now]
        is_open = rank + now == 0 and rank > 1 and not isinstance(here, int)
        if not (is_open or rank + now > 1) or not _may_be(size, dims[1]):
            return None
        if asked is not None:
            wanted = _dim_asked(asked, rank)
            return wanted - rank if wanted != rank + now and _may_be(size, dims[wanted]) else None
        if (dims[1] == size) != (here == size):
            return 1 - rank if dims[1] == size else None
        where = (
            f"it goes along dim {rank + now} of X, {_text(dims)}, and may be meant for dim 1, the channels"
        )
        return f"{where}; --slopes channel or --slopes last decides"

    def _place(self, node: NodeProto, row: OpVersion, axis: int, edit: Editor) -> None:
        """Reshape a slope to lie along a dim of X, counted from the last one."""
        x, slope = (edit.value(name) for name in node.input)
        size, rank = _size(slope), len(x.shape or ())  # 0 also if it is not known
        assert size is not None
        is_channel = axis == 1 - rank and size != 1
        shape: Dims = (size, *(1 for _ in range(-1 - axis))) if x.shape != () else ()
        if row.broadcasting.name == "shared or per channel":
            shape = (size,) if is_channel else (1, size) if axis == -1 else shape
        key = edit, node.input[1], shape
        if key not in self._reshaped:
            self._reshaped[key] = _in_place(*key) or edit.reshape(*key[1:])
        node.input[1] = self._reshaped[key]
        along = "per channel" if is_channel else f"along dim {axis + rank}"
        along = "one for all elements" if size == 1 else along
        was, now = _text(slope.shape), _text(shape)
        edit.note(f"the slope of shape {was} gets the shape {now}: {along} of X, {_text(x.shape)}")
        if is_channel:
            self.per_channel.add(rank)


def _in_place(edit: Editor, name: str, shape: Dims) -> str:
    """Change the shape of an input with a default that only one node reads; return its name, empty for others."""
    tensor, owner = edit.scope.constants.get(name), edit.owner
    infos = owner.input if isinstance(owner, GraphProto) else ()
    info = next((each for each in infos if each.name == name), None)
    if info is None or tensor is None or edit.reads[name] != 1:
        return ""
    tensor.dims[:] = shape
    info.type.CopyFrom(onnx.helper.make_tensor_type_proto(tensor.data_type, shape))
    edit.scope.add_tensor(name, tensor)
    return name


def _attributes(node: NodeProto, row: OpVersion, edit: Editor) -> None:
    """Convert attributes that a newer version lacks to its form."""
    known = {attribute.name for attribute in row.attributes}
    gone = {a.name: a for a in node.attribute if a.name not in known}
    legacy = {name: a.i for name, a in gone.items() if name in ("axis", "broadcast")}
    named = " and ".join(f"{name}={value}" for name, value in legacy.items())
    if node.op_type == "PRelu" and legacy:
        is_or_are = "is" if len(legacy) == 1 else "are"
        edit.note(f"{named} {is_or_are} dropped: PRelu has no such attribute in any opset")
    elif legacy:  # Y goes where axis puts it by the rules before opset 7
        y = node.input[1]
        try:
            y = from_legacy(node, {**legacy, "broadcast": 1}, edit)
        except HalfulpError as error:  # its shape may be right by NumPy's rules
            if isinstance(error, NoExactForm):
                raise
        if y == node.input[1]:
            edit.note(f"{named} is dropped: opset 7 removed it")
        else:
            shape = _text(edit.value(y).shape)
            edit.note(f"Y gets the shape {shape}, where {named} puts it: opset 7 removed the attribute")
            node.input[1] = y
    if "consumed_inputs" in gone:
        edit.note("consumed_inputs is dropped: it says nothing about the result, and opset 6 removed it")
    if unknown := gone.keys() - {*legacy, "consumed_inputs"}:
        names = " and ".join(sorted(unknown))
        raise NoExactForm(f"{row.id} has no attribute {names}; its meaning is not known")
    for attribute in gone.values():
        node.attribute.remove(attribute)


def _allowed(row: OpVersion) -> tuple[Collection[str], Collection[str]]:
    """Return the types that a version takes for X, and for the second operand; none where that has X's type."""
    first, second = (port.type for port in row.inputs)
    return row.type_variables[first], () if first == second else row.type_variables[second]


def _widen(node: NodeProto, row: OpVersion, x: str, y: str, edit: Editor) -> None:
    """Cast X to a type that the version takes, and the second operand if that is necessary, too."""
    bases, others = _allowed(row)
    differs = None
    wraps = [kind for kind in bases if kind not in FLOATS and holds(kind, x)]
    if wraps and y not in FLOATS:
        wide = min(wraps, key=lambda kind: TYPES[kind].bits)  # low bits as in X's type
    elif x in FLOATS:
        wide = next((kind for kind in ("float32", "float64") if kind in bases and holds(kind, x)), "float32")
        differs = "the result is rounded twice" if holds(wide, x) else f"the result is one of {wide}"
    else:
        wide = "float64" if "float64" in bases else "float32"
        differs = f"a result that {x} does not hold saturates or depends on the runtime"
    lacks = f"{node.op_type} takes no {x} in opset {edit.opset}"
    edit.note(f"X is cast from {x} to {wide}, and the result back: {lacks}", differs)
    node.input[0] = edit.cast(node.input[0], wide)
    if y not in (others := others or (wide,)) or (y == x and holds(wide, y)):
        kind = next((kind for kind in (wide, *others) if holds(kind, y)), next(iter(others)))
        node.input[1] = edit.cast(node.input[1], kind)


def _dim_of_slope(x: Value, slope: Value, asked: Asked, name: str) -> int:
    """Return the dim of X, counted from the last one, that a slope lies along if its own shape does not fit."""
    size, dims, shapes = _size(slope), x.shape or (), f"X: {x}, slope: {slope}"
    if size is None:
        raise NoExactForm(f"the slope is not one of a single dim, and does not fit X; {shapes}")
    if asked is not None and dims:
        axis = _dim_asked(asked, len(dims))
        if _may_be(size, dims[axis]):
            return axis - len(dims)
        if isinstance(asked, int):
            raise NoExactForm(f"dim {axis} of X does not have the slope's {size} elements; {shapes}")
    fits = [axis for axis, dim in enumerate(dims) if axis and _may_be(size, dim)]
    if len(fits) == 1 or dims[1:2] == (size,):
        return fits[0] - len(dims)
    if not fits and dims[:1] != (size,):
        raise NoExactForm(f"no dim of X has the slope's {size} elements; {shapes}")
    certain = [axis for axis in fits if dims[axis] == size]
    choice = " or ".join(f"--slopes {shlex.quote(f'{name}={axis}')}" for axis in certain or fits or [0])
    if not fits:
        raise NoExactForm(f"only dim 0 of X has the slope's {size} elements; {shapes}; {choice} takes it")
    raise NoExactForm(f"the slope's {size} elements fit several dims of X; {shapes}; {choice} takes one")


def _dim_asked(asked: str | int, rank: int) -> int:
    if isinstance(asked, str):
        return min(1, rank - 1) if asked == "channel" else rank - 1
    if not -rank <= asked < rank:
        raise NoExactForm(f"X has no dim {asked}: its rank is {rank}")
    return asked % rank


def _size(slope: Value) -> int | None:
    """Return the number of elements of a slope with at most one dim other than 1; None for any other."""
    size, *others = [dim for dim in slope.shape or () if dim != 1] or [1]
    return size if isinstance(size, int) and not others else None


def _may_be(size: int, dim: Dim) -> bool:
    return dim == size or not isinstance(dim, int)


def _legacy_broadcast(node: NodeProto, row: OpVersion, edit: Editor) -> None:
    """Add ``broadcast`` and ``axis`` to a Pow before opset 7 whose shapes do not fit."""
    x, y = (edit.value(name) for name in node.input)
    if x.shape is None or y.shape is None or row.broadcasting.fits(x.shape, y.shape, attributes_of(node)):
        return
    given = {a.name: a.i for a in node.attribute}
    attributes: dict[str, Any] = {**given, "broadcast": 1}  # aligned at the last dims, as everywhere else
    fits, axes = row.broadcasting.fits(x.shape, y.shape, attributes), list[int]()
    if not fits and "axis" not in given:
        starts = range(len(x.shape) - len(y.shape) + 1)
        axes = [axis for axis in starts if x.shape[axis : axis + len(y.shape)] == y.shape]
    if len(axes) > 1:
        places = " or ".join(f"axis={axis}" for axis in axes)
        raise NoExactForm(f"X: {x}, Y: {y}: Y fits at {places}, and nothing says which is meant")
    if fits or axes:
        if axes:
            attributes["axis"] = axes[0]
        added = " and ".join(f"{name}={attributes[name]}" for name in attributes if name not in given)
        edit.note(f"gets {added or 'broadcast=1'}: X and Y differ in shape")
    elif not NUMPY.fits(x.shape, y.shape):
        return
    else:
        node.input[0], node.input[1], attributes = to_legacy(node.input[0], node.input[1], edit)
        edit.note("X and Y are broadcast as NumPy does it, which opset 6 writes otherwise")
    del node.attribute[:]
    node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in attributes.items())


def _text(shape: Shape) -> str:
    return format_shape(without_made_up(shape))
