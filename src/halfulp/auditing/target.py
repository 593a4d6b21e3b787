"""The measured results of a runtime for one node, narrowed to the cases that the node can touch."""

import math
import re
import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import onnx

from halfulp.auditing.uses import Breach, Operand, Use, open_slope
from halfulp.conversion.editor import Change
from halfulp.conversion.passes import run_passes
from halfulp.conversion.targets import TARGET, known_targets
from halfulp.conversion.walk import Walk, check_clauses
from halfulp.errors import HalfulpError, did_you_mean, named, printable
from halfulp.installed import RUNTIME_ALIASES, has_module, version_of
from halfulp.measured import GRADES, Group, Measured, Row, available, kind_of_slope, loads, nearest
from halfulp.models.files import read_text
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.tensors import declaration
from halfulp.specs import ids
from halfulp.specs.broadcast import NUMPY
from halfulp.types import TYPES, Shape

_SPELLED = re.compile(r"(?P<name>[A-Za-z][A-Za-z-]*)(==(?P<version>\d+(\.\w+)*))?")

LOADERS = {"onnx": ("onnxruntime", "openvino"), "openvino": ("openvino",)}
"""The measured runtimes that load a file of each format. A name is that of the target and of the Python module.

PyTorch and JAX load none of these files. The onnx package and its evaluator are always installed with halfulp.
"""

BAD = ("wrong", "refused", "crashed", "hung")
_FOLDING = "constant folding"
_NEAR = 4  # ulp
_LARGE = 8  # larger fractions are not grouped, nor whole exponents beyond the greatest that was measured
_ORDER = ("exact", "rejected", "unspecified", "within", "wider", *BAD)


@dataclass(frozen=True)
class Asked:
    """A target as the caller spelled it, with its measurements."""

    name: str  # the runtime
    version: str | None = None  # as asked for, or as installed; None for the newest one measured
    measured: Measured | None = None  # of that version or the nearest one; None where nothing was measured
    native: Measured | None = None  # where it has a front end of its own beside ONNX: the measurements there
    installed: bool = False  # whether it is judged only because it is installed

    def spoken_for_by(self, kind: str) -> Measured | None:
        """Return the measurements that apply to nodes of a format, or of an operator by its id."""
        return self.native if kind.startswith("openvino") and self.native else self.measured


def asked(targets: Iterable[object] | None) -> dict[str, tuple[Asked, ...]]:
    """Return the runtimes that judge a file of each format: if none are named, those installed, or else all."""
    if targets is not None:
        return dict.fromkeys(LOADERS, tuple(map(spelled, targets)))
    here = installed()
    known = {name: _known(name, here.get(name), installed=name in here) for name in here or LOADERS["onnx"]}
    return {kind: tuple(filter(None, map(known.get, names))) for kind, names in LOADERS.items()}


def spelled(target: object) -> Asked:
    """Return the target of a spelling such as ``onnxruntime``, ``onnxruntime==1.31.1``, ``FILE.json``."""
    spelling = str(target)
    if spelling.endswith(".json"):
        text = read_text(Path(spelling), most=1 << 28)
        try:
            (measured,) = loads(text)
        except ValueError as error:
            expected = "expected the document of one runtime, of halfulp check --json"
            raise HalfulpError(f"{spelling}: {expected}: {error}") from None
        return Asked(measured.target, measured.version, measured)
    match = _SPELLED.fullmatch(spelling)
    if match is None or (name := named(match["name"], names(), RUNTIME_ALIASES)) is None:
        spelling = spelling[:80]
        measuring = f"halfulp check {shlex.quote(spelling)} --json FILE.json, then --target FILE.json"
        forms = f"NAME or NAME==1.2.3; or of a runtime of your own: {measuring}"
        raise HalfulpError(f"no target {spelling}; {did_you_mean(spelling, names())}", expected=forms)
    return _known(name, match["version"])


def _known(name: str, version: str | None = None, *, installed: bool = False) -> Asked:
    return Asked(name, version, nearest(name, version), nearest(f"{name}-native", version), installed)


def names() -> list[str]:
    """Return the targets that are known: measured, or as a target of ``halfulp convert``."""
    return sorted({name.removesuffix("-native") for name in available()} | set(known_targets()))


def installed() -> dict[str, str | None]:
    """Return the runtimes of ``LOADERS`` that are installed, with their versions; None for one that is not known.

    None of them is loaded. A version is that of the distribution, such as onnxruntime-gpu, without +cpu and the like.
    """
    versions = {name: version_of(name) for name in LOADERS["onnx"] if has_module(name)}
    if None in versions.values():  # one may be of a distribution with another name
        distributions = packages_distributions()  # which reads the list of files of all
        others = [name for name in distributions.keys() & versions.keys() if versions[name] is None]
        versions |= {name: version_of(distributions[name][0]) for name in others}
    return {name: (version or "").partition("+")[0] or None for name, version in versions.items()}


@dataclass(frozen=True)
class Conversion:
    """The changes that a conversion makes to a node, in order; or the reason that it refuses the node."""

    steps: tuple[Change, ...] = ()  # empty if the target takes the node unchanged
    refused: str | None = None

    @property
    def helps(self) -> bool:
        """Whether it changes the node into what the target takes."""
        return any(step.what != "stays unchanged" for step in self.steps)


def conversion(use: Use, target: str) -> Conversion | None:
    """Return the changes that a target needs in an ONNX node, tried on it alone; None for other nodes or targets."""
    if target not in known_targets() or use.row.standard != "onnx":
        return None
    if use.types is None:
        return Conversion(refused="the type of an input is not known")
    try:
        walk = Walk(Onnx(_alone(use), "model"))
        changes = check_clauses(walk) + run_passes(walk, *((each, target) for each in TARGET))
    except HalfulpError as error:
        reason = error.message.partition(": no exact form in ")[2].partition(": ")[2] or error.message
        return Conversion(refused=printable(reason, most=None))
    return Conversion(tuple(Change("", printable(each.what, most=None), each.differs) for each in changes))


def _alone(use: Use) -> onnx.ModelProto:
    """Return a model of this node alone, with the known types and shapes of its operands."""
    names = [f"i{index}" for index in range(len(use.inputs))]
    attributes = {key: value for key, value in use.attributes.items() if value is not None}
    node = onnx.helper.make_node(use.row.name, names, ["o"], **attributes)
    output = declaration("o", use.inputs[0].type, use.output.shape)
    graph = onnx.helper.make_graph([node], "alone", [], [output])
    for name, operand in zip(names, use.inputs, strict=True):
        if operand.constant is not None:
            graph.initializer.append(onnx.numpy_helper.from_array(operand.constant, name))
        else:
            graph.input.append(declaration(name, operand.type, operand.shape))
    imports = [onnx.helper.make_opsetid("", int(use.asked))]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def heeds_constants(use: Use, target: str) -> bool:
    """Tell whether the conversion of a node may depend on the values of its constants."""
    row = known_targets().get(target)
    return row is not None and not (use.types is not None and row.takes(use.row.name, use.types))


class Statement(NamedTuple):
    """The result of a node in a target.

    The verdict ``wider`` says that the node's halves are computed in float32, and not rounded beside other nodes.
    The groups with errors are keys of ``GROUPS``, values of ``_NOT_ORDINARY``, ``constant`` for the node's
    constant exponent or slopes, or ``opset``; there are none where the types are refused altogether.
    """

    target: str  # the runtime
    verdict: str  # exact, within, wider, wrong, refused, crashed, hung, or unknown
    max_ulp: float | None = None  # the greatest difference measured where results are within or wrong
    reasons: tuple[str, ...] = ()  # a line for each thing that is wrong
    depends: tuple[str, ...] = ()  # the things beside the operands on which the bits of a result depend
    accepts: tuple[str, ...] = ()  # clauses that the node breaks, and that the target lets it break
    conversion: Conversion | None = None  # of halfulp convert --target; None if that does not know the target
    groups: tuple[str, ...] = ()  # those with errors
    grade: str | None = None  # how ordinary the operands are that show the faults; None if not known

    @property
    def is_finding(self) -> bool:
        """Whether the target gives neither the node's exact result nor a near one that is always the same."""
        return self.verdict in BAD or bool(self.depends)

    @property
    def is_mended(self) -> bool:
        """Whether a conversion suffices: the target does not take the node, or only broadcasts it differently."""
        is_only_broadcast = self.groups == ("broadcast",) and not self.depends
        is_of_use = self.verdict in ("refused", "crashed", "hung") or is_only_broadcast
        return is_of_use and self.conversion is not None and self.conversion.helps


Convert = Callable[[Use, str], Conversion | None]


def statement(use: Use, target: Asked, broken: Sequence[Breach], convert: Convert = conversion) -> Statement:
    """Return the result of a node in a target; ``convert`` tries the conversion."""
    condition = None if broken else open_slope(use)
    if broken or condition is not None:
        return _of_invalid(use, target, broken, condition)
    changed = convert(use, target.name)
    return _of_valid(use, target, changed)._replace(conversion=changed)


def _of_valid(use: Use, target: Asked, changed: Conversion | None) -> Statement:
    measured = target.spoken_for_by(use.operator)
    if measured is None or (row := _row(use, measured, use.types)) is None:
        return _unmeasured(use, target, changed)
    own, groups = _groups_of(use, row)
    if row.verdict == "refused" and not row.groups and not groups:
        return Statement(target.name, "refused", reasons=() if row.message is None else (row.message,))
    if (why := use.mistaken.get(target.name)) is not None:
        groups.append(Group("fusion", "wrong", example=why, grade="ordinary"))
    verdicts = [*(group.verdict for group in groups), *_by_type(use, measured)]
    bad = [group for group in groups if group.verdict in BAD]
    depends = tuple(_dependences(use, measured, row, own))
    verdict = max(verdicts, key=_ORDER.index, default="exact")
    max_ulp = max((group.max_ulp for group in groups if group.max_ulp), default=None)
    names = tuple(dict.fromkeys(map(_name, bad)))
    grades = [group.grade for group in bad] + ["reproducibility"] * bool(depends)
    grade = None if None in grades else max(filter(None, grades), key=GRADES.index, default=None)
    return Statement(target.name, verdict, max_ulp, _reasons(use, bad), depends, groups=names, grade=grade)


def _reasons(use: Use, bad: Sequence[Group]) -> tuple[str, ...]:
    """Return a line for each thing that is wrong: for all groups of one detail, and for each group without one."""
    by_detail: dict[str, dict[str, None]] = {}
    for group in bad:
        name, colon, detail = _reason(use, group).partition(": ")
        by_detail.setdefault(colon + detail or name, {})[name] = None
    return tuple(", ".join(names) + detail * (detail not in names) for detail, names in by_detail.items())


def _of_invalid(use: Use, target: Asked, breaches: Sequence[Breach], condition: str | None) -> Statement:
    """Return the statement about a node that breaks clauses, or is valid on a condition."""
    measured = target.spoken_for_by(use.operator)
    accepted = measured.accepts if measured is not None else frozenset()
    clauses = tuple(breach.clause for breach in breaches if breach.clause in accepted)
    declared_types = {operand.type for operand in (*use.inputs[:1], use.output)}
    if target.name == "onnxruntime" and len(declared_types) == 2:
        clauses = ()  # it takes a result that is declared in another shape, and refuses another type
    text = _of_slope(use, target, condition)
    if text is None and breaches and measured is not None:
        name = use.operator.partition(".")[2].rpartition("-")[0]
        text = f"{'it may run' if len(clauses) == len(breaches) else 'it refuses'} the {name}"
    return Statement(target.name, "unknown", reasons=(text,) if text else (), accepts=clauses)


def _by_type(use: Use, measured: Measured) -> Iterator[str]:
    """Give the verdicts that follow from a node's types alone."""
    if not use.is_alone and not measured.halves.isdisjoint(operand.type for operand in use.inputs):
        yield "wider"  # it does not round the node's halves beside other nodes
    slopes = use.second.values
    if use.is_prelu and use.inputs[0].type in measured.zero_signs and (slopes is None or (slopes < 0).any()):
        yield "within"  # the document leaves the sign of a zero open


def _of_slope(use: Use, target: Asked, condition: str | None) -> str | None:
    """Return a runtime's result for a slope that does not fit X, or fits on a condition; None if unknown."""
    if use.shapes is None or len({*(use.types or ())}) != 1:
        return None
    x, slope = use.shapes
    if condition is None and use.row.broadcasting.fits(x, slope):
        return None
    if target.name == "openvino" and x and slope == x[1:2]:
        return "it runs with one slope for each channel, dim 1 of X"
    is_refused = target.name == "onnxruntime"
    if condition is not None:
        return f"right only if {condition}{'; else it refuses to run it' * is_refused}"
    fails = "it loads the model, then fails: Attempting to broadcast an axis by a dimension other than 1"
    broken = "it broadcasts X to the slope" if NUMPY.fits(x, slope) else fails
    return broken if is_refused else None


def _unmeasured(use: Use, target: Asked, changed: Conversion | None) -> Statement:
    """Return the statement of a target's documents about a node, where they are known."""
    types = ", ".join(str(operand.type) for operand in use.inputs)
    verdict, reason = "unknown", f"{use.operator} of {types} was not measured"
    groups: tuple[str, ...] = ()
    if use.types is None:
        reason = "the type of an input is not known"
    elif changed is not None and target.measured is None:
        documented = known_targets()[target.name]
        oldest, newest = documented.opsets
        reason = "not measured"
        if not oldest <= int(use.asked) <= (newest or int(use.asked)):
            listed = f"{oldest} to {newest}" if newest else f"{oldest} and later"
            reason = f"its documents list opsets {listed}, and this node is of opset {use.asked}"
            verdict, groups = "refused", ("opset",)
        elif any((changed.refused, changed.helps)):
            verdict = "refused"
            reason = documented.spelled.get(use.row.name) or "its documents do not list this node's types"
    return Statement(target.name, verdict, reasons=(reason,), groups=groups)


def _row(use: Use, measured: Measured, types: tuple[str, ...] | None) -> Row | None:
    """Return the measurements of a node's operator with operands of these types."""
    if types is None:
        return None
    row = measured.rows.get((use.operator, types))
    if row is None and measured.by_meaning:
        newest = [id for id in ids() if id.rpartition("-")[0] == use.operator.rpartition("-")[0]][-1]
        row = measured.rows.get((newest, types))
    return row


def _dependences(use: Use, measured: Measured, row: Row, own: Sequence[Group]) -> Iterator[str]:
    """Give the aspects on which the bits of a node's results depend."""
    alike = _row(use, measured, (str(use.inputs[0].type),) * 2)
    # A runtime that folds a node converts an exponent of another type to that of X.
    folds = alike is not None and _FOLDING in alike.differs
    for aspect in dict.fromkeys((*row.differs, *[_FOLDING] * folds)):
        if aspect == "scalar exponent":
            applies = _may_be_scalar(use.inputs[0], use.inputs[-1])
        else:
            is_own = not own or any(group.differs == aspect for group in own)
            applies = use.is_folded if aspect == _FOLDING else is_own
        if applies:
            yield aspect


def _may_be_scalar(x: Operand, y: Operand) -> bool:
    """Tell whether one run of a node may have one exponent for many bases, and another run many exponents."""
    if x.shape is not None and (x.shape == y.shape or set(x.shape) <= {1}):
        return False
    dims = [None] if y.shape is None else [dim for dim in y.shape if dim != 1]
    return bool(dims) and not any(isinstance(dim, int) for dim in dims)


def _of_constants(use: Use, row: Row) -> tuple[Group, ...]:
    """Return the measurements for a node's constant exponent or slopes; empty if there are none."""
    if use.is_prelu and use.second.values is not None:
        kinds = dict.fromkeys(map(kind_of_slope, use.second.values.tolist()))
        return tuple(row.slopes[kind] for kind in kinds) if kinds.keys() <= row.slopes.keys() else ()
    measured = None if use.exponent is None else _powers_of(use, row).get(use.exponent)
    return () if measured is None else (measured,)


def _groups_of(use: Use, row: Row) -> tuple[tuple[Group, ...], list[Group]]:
    """Return the measurements for a node's own constants, and all that can apply to it."""
    own = tuple(_narrowed(use, group) for group in _of_constants(use, row))
    alike = () if own else _like_exponent(use, row)
    is_small = abs(use.exponent or 0) <= _LARGE
    is_judged = len(alike) > 1 or (bool(alike) and is_small)  # not by the greatest exponent alone

    def touches(group: Group) -> bool:
        if group.name == "broadcast":
            return any(_is_like(use, *broadcast) for broadcast in group.shapes)
        # Measurements of a node's own constants apply to all X; those of similar constants, to all X with errors.
        return not own and not (is_judged and group.verdict in BAD)

    return own, [*own, *alike, *filter(touches, row.groups)]


def _narrowed(use: Use, group: Group) -> Group:
    """Return a fault of other operands than a node's constants as the rounding of those that are like them."""
    is_other = use.is_ordinary or use.is_base_positive
    is_near = group.max_ulp is not None and group.max_ulp <= _NEAR
    if is_other and is_near and group.grade in _NOT_ORDINARY:
        return Group(group.name, "within" if group.max_ulp else "exact", group.max_ulp)
    return group


def _powers_of(use: Use, row: Row) -> Mapping[float, Group]:
    """Return the measurements of powers with constant exponents, for bases such as a node's."""
    x, y = use.inputs[0].shape, use.second.shape
    assert y is not None  # that of a constant
    if x is None or not (len(y) < 2 or set(x) <= {1}):
        return row.constants
    if x[-1:] in ((), (1,)):
        return {**row.constants, **row.columns}
    if len(x) < 2 or isinstance(x[-1], int):
        return row.constants
    # It may be a column. A difference within the limit is reported; a finding needs a known dim.
    mild = {exponent: group for exponent, group in row.columns.items() if group.verdict not in BAD}
    return {**row.constants, **mild}


def _like_exponent(use: Use, row: Row) -> Sequence[Group]:
    """Return the measurements for exponents similar to a node's constant one: of the same sign, and whole or not.

    A runtime that multiplies for whole exponents has errors that grow with the exponent: one is judged by the next
    smaller and the next greater one. 0.5 and -0.5 say nothing about other fractions: these powers are square roots.
    """
    exponent = use.exponent
    if exponent is None or (kind := _kind(exponent)) is None:
        return ()
    powers = _powers_of(use, row).items()
    alike = {other: group for other, group in powers if _kind(other) == kind and abs(other) != 0.5}
    if not exponent.is_integer():
        return [*alike.values()] if abs(exponent) <= _LARGE else ()
    sizes = sorted(map(abs, alike))
    place = bisect_left(sizes, abs(exponent))
    near = sizes[max(place - 1, 0) : place + 1]
    return [group for other, group in alike.items() if abs(other) in near]


def _kind(exponent: float) -> tuple[bool, bool] | None:
    """Return whether an exponent is above 0, and whether it is whole; None for those that are not grouped."""
    is_grouped = math.isfinite(exponent) and exponent not in (0, 1)
    return (exponent > 0, exponent.is_integer()) if is_grouped else None


def _is_like(use: Use, shapes: Sequence[Shape], names: Sequence[str]) -> bool:
    """Tell whether a node may broadcast as a case did: by the same attributes, and ranks that compare alike."""
    attributes = {name for name, value in use.attributes.items() if value is not None} - {"auto_broadcast"}
    if attributes != set(names) - {"auto_broadcast"}:
        return False
    is_one = len({operand.name for operand in use.inputs}) == 1
    relations = {"equal"} if is_one else _relations(*(operand.shape for operand in use.inputs))
    return not relations.isdisjoint(_relations(*shapes))


def _relations(x: Shape, y: Shape) -> set[str]:
    """Return the possible relations of two operands' shapes; several if dims are unknown."""
    if x is None or y is None:
        return {"equal", "one element", "channels", "vector", "lower rank", "higher rank", "same rank"}
    if x == y and None not in x:
        return {"equal"}
    if set(y) <= {1}:
        return {"one element"}
    relations = set() if any(isinstance(dim, int) and dim != 1 for dim in y) else {"one element"}
    if len(y) == 1 < len(x):  # some runtimes read one as long as dim 1 as a value per channel
        sizes = {dim for dim in (x[1], y[0]) if isinstance(dim, int)}
        if len(x) == 2 or len(sizes) == 2:
            return relations | {"vector"}
        return relations | {"channels"} | ({"vector"} if x[1] != y[0] else set())
    return relations | {("same rank", "higher rank", "lower rank")[(len(y) > len(x)) - (len(y) < len(x))]}


GROUPS = {
    "values": "ordinary values",
    "special": "special values",
    "edge": "values at the edges of the range",
    "hard": "values that are hard to round",
    "broadcast": "broadcasting",
    "fusion": "a fusion of nodes",
}
"""The groups that are measured together, by the name that cases have."""

_NOT_ORDINARY: Mapping[str | None, str] = {
    "zero-signs": "signs of zeros",
    "subnormals": "subnormal numbers",
    "exponents": "exponents beyond 2^53",
    "nan": "NaN",
    "edges": "zeros, infinities and numbers near overflow or underflow",
}
"""The names of errors among ordinary values, or with a constant, that only such operands show, by grade."""


def _name(group: Group) -> str:
    """Return a group's name, or the kind of operands among ordinary values that alone show its errors."""
    return _NOT_ORDINARY.get(group.grade, group.name) if group.name == "values" else group.name


def _reason(use: Use, group: Group) -> str:
    """Return a line about a group, with figures and example if they apply to the node's constants."""
    text = GROUPS.get(_name(group), _name(group))
    if group.name == "constant":
        operands = _NOT_ORDINARY.get(group.grade)
        text = of_constant(use) + (f", only for {operands}" if operands else "")
    if group.verdict != "wrong":
        text += f": {group.verdict}"
    elif (other := _not_its_own(use, group)) is not None:
        return text if group.name == "broadcast" else f"{text}, measured with another {other}"
    elif group.max_ulp:
        unit = "units" if TYPES[str(use.inputs[0].type)].kind != "float" else "ulp"
        text += f": up to {group.max_ulp:g} {unit}"
    return f"{text}: {group.example}" if group.example else text


def of_constant(use: Use, text: str | None = None) -> str:
    """Return how reasons name a node's constant exponent or slopes, or those of a text."""
    return f"{'with slopes' if use.is_prelu else 'to the power'} of {text or use.second.text}"


def _not_its_own(use: Use, group: Group) -> str | None:
    """Return the operand of a group's example that is not the node's constant; None without such an operand."""
    names = ("X", "slope") if use.is_prelu else ("base", "exponent")
    given = zip(names, (use.inputs[0], use.second), group.operands or (), strict=False)
    others = (name for name, operand, x in given if operand.values is not None and not operand.holds(x))
    return next(others, None)
