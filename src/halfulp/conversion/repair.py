"""Repairing an ONNX model whose Pow and PRelu nodes break clauses: ``hu.repair``."""

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from halfulp import errors
from halfulp.conversion import Conversion, passes
from halfulp.conversion.editor import Change, Editor, exactly_as, holds, is_one, remade
from halfulp.conversion.float32 import HALVES
from halfulp.conversion.mending import Mender, Slopes
from halfulp.conversion.network import as_read, compare_network
from halfulp.conversion.opset import late_nodes, opset_of, to_opset
from halfulp.conversion.rules import Answer, Match, Rule, rewrite
from halfulp.conversion.verify import Feed, Verification, runs, verified
from halfulp.conversion.walk import Walk, check_clauses, drop_unreached, separate
from halfulp.models.files import Source, format_of, read_source
from halfulp.models.graph import Value, agree, describe, listed, unused
from halfulp.models.onnx import Onnx, parse, walk
from halfulp.models.onnx.checks import check_text, label, port_at, ports
from halfulp.models.onnx.infer import OLDEST_IR_OF_DEFAULTS, Types, scalar
from halfulp.models.onnx.tensors import LARGEST_FILE, declared, enum_of, type_of
from halfulp.models.run.cast import cast
from halfulp.models.run.inputs import dtype_named
from halfulp.models.run.report import vacuous
from halfulp.types import FLOATS, INTEGERS, TYPES

_RETYPED = ("Add", "Sub", "Mul", "Div", "Clip", "Max", "LayerNormalization", "RMSNormalization")
"""The operators of a norm, whose constants have to be of the type of the values beside them."""

_CHOOSING = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Min", "Where")
"""The others of a PRelu that is written out, and of a limit."""

_OF_NORMS = (*_RETYPED, "Pow", "Sqrt", "ReduceL2", "Cast", "Reciprocal", "ReduceMean", "ReduceSum")

_CHANNELS = "its scale has one dim, and so its numbers are those of channels"
_KINDS = {*TensorProto.DataType.values()} - {TensorProto.UNDEFINED}
_DECLARED = "the type that the result is declared in"


class Left(errors.Finding):
    """A node that was not repaired, or is valid (``doubtful``) and may be meant otherwise than it is written.

    Its text is the error or the doubt, with the choices that the user has.
    """

    @property
    def why(self) -> str:
        """The text of the finding."""
        return self.text

    @property
    def valid(self) -> bool:
        """Whether the node breaks no clause."""
        return self.kind == "doubtful"

    def __str__(self) -> str:
        return f"{self.node or self.file}: {self.text}"


def _left(file: str, node: str | None, why: str, *, valid: bool = False) -> Left:
    """Return the finding about a node that a repair leaves, with the advice of an audit."""
    advice = f"{errors.command(file, 'repair')} needs a choice"
    advice = advice if "--slopes" in why else "halfulp repair does not know how it is meant"
    return Left(file, node, "doubtful" if valid else "clause", why, errors.Remedy(advice, why))


@dataclass(frozen=True, repr=False)
class Repair(Conversion):
    """A repaired model, the changes, and the nodes that are left. ``print`` shows these as lines.

    Attributes:
        model: the repaired model; an equal copy where nothing was to be repaired.
        left: the nodes that are still broken, and valid ones that may be meant otherwise.
    """

    model: ModelProto
    left: tuple[Left, ...] = ()
    _noun: ClassVar[str] = "repair"

    def __repr__(self) -> str:
        state = "valid" if self.valid else "not valid"
        return f"<Repair: {self.summary}, {len(self.left)} left, {state}{verified(self.verification)}>"

    def lines(self) -> list[str]:
        """Return a line for each change, and one for each node that is left."""
        doubts = sorted(self.left, key=lambda left: left.valid)
        said = (f"{'doubtful' if left.valid else 'not repaired'}: {left}" for left in doubts)
        return [*super().lines(), *said]

    @property
    def valid(self) -> bool:
        """Whether no Pow or PRelu of the model breaks a clause any more."""
        return all(left.valid for left in self.left)


def repair(
    model: Source,
    output: str | os.PathLike[str] | None = None,
    *,
    slopes: Slopes | None = None,
    verify: bool = False,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Repair:
    """Give each broken Pow and PRelu node of an ONNX model the one meaning that its author can have had.

    Slopes that were written for each channel get the shape that broadcasts so; constants of another type are stored in
    the right one; attributes that a version lost, declarations that contradict the operators, types that need a newer
    opset and nodes out of order are put right. A node that can have several meanings is left and named.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto`` (which is not changed).
        output: where to write the result; nowhere if not given.
        slopes: the dim of X that slopes go along where that is open: ``"channel"`` (dim 1), ``"last"`` or a dim's
            number; or these by the names of nodes.
        verify: whether to run the repaired model: in ONNX Runtime where it is installed. If OpenVINO is installed and
            takes the broken model, their outputs are compared.
        seed: for made-up inputs.
        dims: sizes of the symbolic dims of made-up inputs.
        inputs: arrays by name, to verify with instead of made-up ones.
        progress: gets a line for each run of a verification.

    Returns:
        The repaired model with a line for each change and for each node that is left.

    Raises:
        ModelError: the model is broken in another way.
        UnsupportedError: it has operators that halfulp does not know in a place where it needs them.
        HalfulpError: it is in another format, or the result can't be written.

    Example:
        >>> from onnx import parser
        >>> model = parser.parse_model('''<ir_version: 8, opset_import: ["": 9]>
        ...     face (float[N, 3, 8, 8] x, float[3] slope) => (float[N, 3, 8, 8] y) { y = PRelu(x, slope) }''')
        >>> repaired = repair(model)
        >>> print(*repaired.changes)
        #0 (PRelu): the slope of shape [3] gets the shape [3, 1, 1]: per channel of X, [N, 3, 8, 8]
        >>> repaired.valid
        True
    """
    errors.check_integer("seed", seed, 0)
    errors.check_sizes(dims)
    if (kind := format_of(model)) != "onnx":
        raise errors.HalfulpError("only ONNX models are repaired", expected="its ONNX original", got=kind)
    if output is not None and format_of(output) != "onnx":
        said = f"{os.fspath(output)}: the repaired model is an ONNX model"
        raise errors.HalfulpError(said, expected="a name in .onnx")
    sorted_: list[str] = []
    source = parse(model, report=sorted_.append)
    new, changes, left = repaired(source, slopes)
    told = (*(Change(source.file, line) for line in sorted_), *changes)
    is_file = isinstance(model, str | os.PathLike | bytes)
    untouched = read_source(model, LARGEST_FILE)[0] if is_file and not told else None
    found = Repair(new.proto, told, folder=new.folder, untouched=untouched, left=tuple(left))
    if output is not None:
        found.save(output)
    if not verify or not found.valid:
        return found
    return replace(found, verification=_verify(source, new, changes, Feed(seed, dims, inputs, progress)))


def repaired(source: Onnx, slopes: Slopes | None = None) -> tuple[Onnx, list[Change], list[Left]]:
    """Return the repaired model (the source if nothing was to be repaired), the changes and the nodes left."""
    readable = source.copy()
    told = _correct_inputs(readable) + _correct_batch_norms(readable.proto)
    readable = readable if told else source  # the copy is not kept for nothing
    error = readable.fault_of_ours
    new, changes, left = _repaired(readable, slopes)
    breach = _breach_of_a_call(new)
    if breach is not None and (copied := separate(copy := readable.copy())):
        new, changes, left = _repaired(copy, slopes)
        changes, breach = [*copied, *changes], _breach_of_a_call(new)
    if breach is not None and all(each.valid for each in left):
        left = [*left, _left(new.file, breach.node, breach.message)]
    left += [_left(new.file, None, doubt, valid=True) for doubt in of_later_opsets(new)]
    changes = [*told, *changes]
    if not changes and not left:
        if error is not None:
            raise error
        left = _refused(new, valid=True)
    return new, changes, left


def _correct_inputs(model: Onnx) -> list[Change]:
    """Declare weights as they are, and dims below 0 as not known, in an IR version that takes the weights."""
    proto, file = model.proto, model.file
    check_text(proto, file)
    why, unknown = ": it has initializers that are not inputs", dict[str, None]()
    needed = OLDEST_IR_OF_DEFAULTS if passes.has_weights(proto.graph) else 0
    changes = passes.raise_ir(model, needed, why)
    for _, graph in walk.graphs(proto.graph):
        weights = {tensor.name: tensor for tensor in graph.initializer}
        for info in (*graph.input, *graph.value_info, *graph.output):
            was, kind, tensor = declared(info, file), info.type.tensor_type.elem_type, weights.get(info.name)
            if tensor and not (kind == tensor.data_type and agree(was.shape, tuple(tensor.dims))):
                info.type.CopyFrom(onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims))
                said = f"{errors.printable(info.name)!r}, declared as {was}, is a weight"
                changes.append(Change(file, f"{said}, and is declared as {declared(info, file)}"))
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_value < 0:
                    unknown.setdefault(repr(errors.printable(info.name)))
                    dim.Clear()
    if unknown:
        changes.append(Change(file, f"dims below 0 are declared as not known: {listed(unknown, 4)}"))
    return changes


def _correct_batch_norms(model: ModelProto) -> list[Change]:
    """Drop ``spatial``, which MXNet's exporter writes in opset 9, too, since which all numbers are of channels."""
    changes = []
    dims = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    for owner, opset in walk.owners_of(model):
        for index, node in enumerate(owner.node if opset >= 9 else ()):
            is_norm = (walk.plain_domain(node.domain), node.op_type) == ("", "BatchNormalization")
            given = {a.name: a for a in node.attribute if is_norm}.get("spatial")
            if given is not None and (given.i or dims.get([*node.input, "", ""][1]) == 1):
                changes.append(Change(label(node, index, ""), f"spatial={given.i} is dropped: {_CHANNELS}"))
                node.attribute.remove(given)
    return changes


def of_later_opsets(model: Onnx) -> Iterator[str]:
    """Yield the doubt about operators that came after the model's opset: some runtimes take them all the same."""
    graph, file = model.proto.graph, model.file
    opset = walk.default_opset(model.proto.opset_import) or 1
    late = {n.op_type: version for version, nodes in late_nodes(graph, opset).items() for n in nodes}
    if late:
        newest = max(late.values())
        newer = f"{errors.command(file, 'convert', opset=newest)} makes it a model of opset {newest}"
        others = f"--opset {opset} writes other operators in the place of these"
        yield f"opset {opset} has no {listed(sorted(late), 4)}; {newer}, and {others}"
    kinds = {node.op_type for node in walk.every_node(graph) if not walk.plain_domain(node.domain)}
    if own := sorted(errors.printable(kind) for kind in kinds if not onnx.defs.has(kind)):
        yield f"ONNX has no {listed(own, 4)} in any opset: only a runtime that has its own takes the model"


def _repaired(
    source: Onnx, slopes: Slopes | None, *, may_raise: bool = True
) -> tuple[Onnx, list[Change], list[Left]]:
    new, file, mender = source.copy(), source.file, Mender(slopes, may_raise=may_raise)
    before, found = dict[tuple[str, str], Value](), passes.by_nodes(new)
    if corrected := _correct_casts(new, found):
        found = passes.by_nodes(new)
    is_as_read = not (passes.correct_declarations(new, found, before, shapes=False) or corrected)
    model = Walk(new, types=vars(source).get("types") if is_as_read else None)
    unreached = drop_unreached(model)
    returned = {declared(info, file).type for info in source.proto.graph.output}
    mended = passes.run_passes(model, (_mend, (mender, returned)), may_leave=True)
    if unknown := min(mender.of_node.keys() - mender.found, default=None):
        prelus = ((n, known) for known in model.scopes() for n in known.owner.node if n.op_type == "PRelu")
        likely = errors.did_you_mean(unknown, sorted({n.name or known.label(n) for n, known in prelus}))
        raise errors.HalfulpError(f"{file}: slopes: no PRelu {unknown!r}; {likely}")
    left = [_left(file, name, why) for name, _, why in dict.fromkeys(model.refused.values())]
    left += [_left(file, name, why, valid=True) for name, why in mender.doubtful.items()]
    if mender.opset:
        opset = max(mender.opset, opset_of(new))  # also of a function of an older one
        try:
            passes.run_passes(Walk(new), (to_opset, opset))
        except errors.UnsupportedError:
            return _repaired(source, slopes, may_raise=False)
        mended.append(Change(file, f"becomes one of opset {opset}"))
    found = found if is_as_read and not mended else passes.by_nodes(new)
    changes = [*mended, *corrected, *passes.correct_declarations(new, found, before)]
    if not changes:
        return source, [], left
    if all(each.valid for each in left):
        try:
            check_clauses(new.of(new.proto).check())
            left += _refused(new)
        except (errors.ModelError, errors.UnsupportedError) as error:
            left.append(_left(file, getattr(error, "node", None), error.message))
    return new, [*unreached, *changes], left


def _mend(model: Walk, given: tuple[Mender, set[str | None]]) -> None:
    """Mend each Pow and PRelu, and what converters to float16 and old layers leave wrong beside them."""
    mender, returned = given
    _agree_on_types(model, returned)
    _mend_layers(model)
    rewrite(model, (*FACTORS, *_LIMITS))
    model.rewrite(walk.is_ours, mender.mend)
    if mender.per_channel and mender.doubtful and mender.slopes in (None, "channel"):
        # If the dim of some slopes is certain, the model's other slopes lie along the same dim.
        mender.slopes = "channel"
        mender.doubtful.clear()
        model.rewrite(walk.is_ours, mender.mend)


def _mend_layers(model: Walk) -> None:
    """Write out what layers of MXNet and Caffe do: Gemm flattens X for its weights, BatchNormalization is spatial."""

    def mend(node: NodeProto, edit: Editor) -> None:
        attributes, x, w = walk.attributes_of(node), *(edit.value(name) for name in node.input[:2])
        weights, (batch, *rest) = w.shape or (), x.shape or (None,)
        if node.op_type == "Gemm":
            size = weights[bool(attributes.get("transB"))] if len(weights) == 2 else None
            sizes = [dim for dim in rest if isinstance(dim, int)]
            if 1 < len(rest) == len(sizes) and math.prod(sizes) == size != rest[-1]:
                edit.note(f"X, {describe(x.type, x.shape)}, is flattened: the weights take {size} elements")
                flat = edit.add("Flatten", [node.input[0]], Value("", x.type, (batch, size)))
                node = remade(node, [flat, *node.input[1:]])
        elif len(rest) > 1 and len(weights) == 1 and not attributes.get("spatial", 1):
            edit.note(f"spatial=0 is dropped: {_CHANNELS}")
            node = remade(node, drop={"spatial"})
        edit.keep(node)

    model.rewrite(lambda node: node.op_type in ("Gemm", "BatchNormalization"), mend)


INFINITE = "an infinite factor makes NaN of 0, and a converter rounds to it what float16 does not hold"


def _infinite(match: Match) -> Answer:
    """The factor is infinite in float16, as a mask's fill that a converter has rounded."""
    greatest, array = np.finfo(np.float16).max, match.array("factor")
    if array is None or match.type("factor") != "float16" or not np.isinf(array).any():
        return False
    place = [*match.root.input].index(match["factor"])
    return {"finite": np.clip(array, -greatest, greatest), "place": place}


def _divides(match: Match) -> Answer:
    """The limit is 0 in float16, where torch's ``normalize`` has 1e-12, and an Expand behind it is a divisor."""
    read, is_length = match.view.readers, match.maker("x").op_type in ("Pow", "Sqrt", "ReduceL2")
    expanded = {each.output[0] for each in read[match.root.output[0]] if each.op_type == "Expand"}
    divisors = {each.input[1] for name in expanded for each in read[name] if each.op_type == "Div"}
    is_zero = match.type("x") == "float16" and scalar(match["limit"], match.view.scope) == 0
    applies = is_zero and is_length and not expanded.isdisjoint(divisors)
    return applies and {"least": np.array(np.finfo(np.float16).smallest_subnormal)}


_FINITE, _NAN = "what was infinite or NaN is finite", "what was NaN is 0"
_FACTOR = f"its input {{place}} is finite: {INFINITE}"
FACTORS = (Rule("Mul(x, factor)", "Mul(x, finite)", (_infinite,), _FINITE, None, since=1, says=_FACTOR),)
_LIMIT = "its lower limit, 0 in float16, becomes {least:.0e}: a vector of zeros is divided by it"
_LIMITS = tuple(
    Rule(f"Clip(x, limit{most})", f"Clip(x, least{most})", (_divides,), _NAN, None, since=1, says=_LIMIT)
    for most in ("", ", most")
)


def _agree_on_types(model: Walk, returned: set[str | None]) -> None:
    """Store the constants of norms and of what chooses between values in the type of the values beside them.

    Exporters write them in float64, and converters to float16 leave them in float32. If the model returns halves and
    has no weights in float32, the result of a norm in float32 is cast to the type of the weights or values beside it.
    """
    weights = (each for each in model.proto.graph.initializer if each.data_type == TensorProto.FLOAT)
    is_half = returned & {*HALVES} and all(math.prod(each.dims) == 1 for each in weights)
    halves = dict[str, str]()  # that norms compute in float32 of float16 or bfloat16, with that type
    for known in model.scopes() if is_half else ():
        for node in known.owner.node:
            if node.op_type in _OF_NORMS and known.value([*node.output, ""][0]).type == "float32":
                is_cast = node.op_type == "Cast"
                kinds = {known.value(name).type if is_cast else halves.get(name) for name in node.input}
                halves.update((node.output[0], half) for half in HALVES if half in kinds)

    def agree(node: NodeProto, edit: Editor) -> None:
        known, new = edit.scope, remade(node)
        for inputs, gives_result in of_one_type(node, edit.opset):
            names = {name: index for index, name in inputs.items()}
            computed = {known.value(name).type: name for name in names if known.tensor(name) is None}
            (kind, *others) = computed or (None,)
            half = halves.get(computed.get("float32", ""))
            beside = {known.value(name).type for name in names if scalar(name, known) is None}
            if half is not None and half in beside:
                index, kind, others = names[computed["float32"]], half, []
                edit.note(f"its input {index}, of a norm in float32, is cast to {half}, the type beside it")
                new.input[index] = edit.cast(computed["float32"], half)
            if kind is None or others:
                continue
            for index in inputs:
                _retype(new, index, kind, edit)
            if gives_result:
                known.types[node.output[0]] = Value(node.output[0], kind, known.value(node.output[0]).shape)
        edit.keep(node if new.input == node.input else new)

    model.rewrite(lambda node: node.op_type in (*_RETYPED, *_CHOOSING), agree)


def of_one_type(node: NodeProto, opset: int) -> Iterator[tuple[dict[int, str], bool]]:
    """Yield the inputs of a node that share a type, names by places, and whether the result shares it."""
    known = None if walk.plain_domain(node.domain) else ports(node.op_type, opset)
    if known is None or not any(node.output[:1]):
        return
    alike = defaultdict[str, dict[int, str]](dict)
    for index, name in enumerate(node.input):
        port = port_at(known.inputs, index)
        if name and port.is_homogeneous:  # the values of a Loop have types of their own
            alike[port.type_str][index] = name
    for variable, inputs in alike.items():
        yield inputs, variable == known.outputs[0].type_str


def _retype(node: NodeProto, index: int, kind: str, edit: Editor) -> None:
    """Store a constant that a node reads in another type of floats, or of integers if that holds it."""
    name, differs = node.input[index], f"a number that {kind} does not hold is rounded"
    was, array = edit.value(name).type, edit.array(name)
    if was == kind or array is None or not any({was, kind} <= {*alike} for alike in (FLOATS, INTEGERS)):
        return
    is_kept = exactly_as(array, kind) is not None
    if not is_kept and kind not in FLOATS:
        return
    with np.errstate(all="ignore"):
        held = cast(array, dtype_named(kind))
    lost = np.isinf(held) & np.isfinite(array) | (held == 0) & (array != 0)
    if lost.any():
        if node.op_type in ("Clip", "Max"):  # a lower limit that keeps a divisor from 0
            held = np.where(lost & (array > 0) & (held == 0), np.nextafter(held, 1), held)
        differs += f"; {array[lost].flat[0]:g} becomes {held[lost].flat[0]:g}"
    node.input[index] = edit.constant(held, "constant")
    said = f"its input {index}, a constant in {was}, is stored in {kind}{', exactly' * is_kept}"
    edit.note(said, None if is_kept else differs)


def _breach_of_a_call(model: Onnx) -> errors.ModelError | None:
    """Return the error if a Pow or PRelu within a function breaks a clause at one of its calls."""
    copy = model.copy() if model.proto.functions else None
    try:
        if copy is not None and separate(copy):
            check_clauses(copy)
    except errors.ModelError as error:
        return error
    return None


def _refused(model: Onnx, *, valid: bool = False) -> list[Left]:
    """Return the error that the onnx package's checker finds in a model."""
    found = passes.refusal(model.proto)
    if found is None or passes.is_harmless(found, model.proto):
        return []
    why = f"the onnx package's checker refuses it: {found.reason}"
    return [_left(model.file, found.node, why, valid=valid)]


def _correct_casts(model: Onnx, types: dict[str, Types]) -> list[Change]:
    """Let a node make the type that its output is declared in, where its own type can't be meant.

    ``types`` are those that the nodes give. Converters change declarations and leave the attribute ``to`` of a Cast,
    or ``dtype`` of others: the type that the readers take is meant. Exporters cast a float to an integer type before or
    behind a Pow whose result they declare as that float, which is meant without a Cast. Frameworks cast a base to the
    wider type of its exponent, and one of bools to integers.
    """
    changes, touched = list[Change](), set[str]()
    known = {name: value.type for path in reversed(types) for name, value in types[path].items()}
    opset = walk.default_opset(model.proto.opset_import) or 1
    suspects = list(contradicted(model.proto))
    read_by = walk.readers_of(walk.every_node(model.proto.graph)) if suspects else {}
    for name, node, kind, wanted in suspects:
        output, readers = node.output[0], read_by[node.output[0]]
        groups = ({*inputs.values()} for each in readers for inputs, _ in of_one_type(each, opset))
        # What the readers want by their other inputs, if these tell.
        others = {other for group in groups if output in group for other in group - {output}}
        read = {*map(known.get, others)} - {None}
        if len(read) != 1 and (type_of(kind.i) in INTEGERS or not readers):
            read = {known.get(node.input[0])} if node.op_type == "Cast" else set()
        if read == {wanted}:
            kind.i = enum_of(wanted)
            known[output] = wanted
            touched.add(output)
            said = f"{kind.name} becomes {wanted}, the type that its output is declared in"
            changes.append(Change(name, said))
    single = {name for values in types.values() for name, value in values.items() if is_one(value)}
    for _, graph in walk.graphs(model.proto.graph):
        changes += _correct_operands(graph, known, opset, touched, single)
    return changes


def _correct_operands(
    graph: GraphProto, known: dict[str, str | None], opset: int, touched: set[str], single: set[str]
) -> Iterator[Change]:
    """Let nodes have the operands from which their results are what the graph declares, without Casts of exporters.

    ``touched`` has the values whose types were corrected. What is computed of them is taken to be as it is declared.
    ``single`` has the values of one element: frameworks do not cast a float base to the type of such an exponent.
    """
    declared_as = _declared_types(graph)
    casts = (n for n in graph.node if n.op_type in ("Cast", "CastLike") and not walk.plain_domain(n.domain))
    before = {node.output[0]: node.input[0] for node in casts if node.input and node.output}
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    for index, node in enumerate([*graph.node]):
        if not touched.isdisjoint(node.input):
            touched |= {*node.output}
            known.update((name, declared_as.get(name)) for name in node.output)
        wanted = declared_as.get([*node.output, ""][0])
        is_pow = node.op_type == "Pow" and walk.is_ours(node) and len(node.input) == 2
        if wanted is None or (is_pow and wanted == known.get(node.output[0])):
            continue
        name = label(node, index, "")
        for place, operand in _cast_operands(node, wanted, known, None if is_pow else opset, before).items():
            said = ("X", "the exponent")[place] if is_pow else f"its input {place}"
            yield Change(name, f"{said} is not cast from {wanted}, {_DECLARED}")
            node.input[place] = operand
            touched |= {*node.output}
        if is_pow and _is_base_of(wanted, *map(known.get, node.input), is_one=node.input[1] in single):
            yield Change(name, f"X is cast from {known[node.input[0]]} to {wanted}, {_DECLARED}")
            taken.add(new := unused(f"{node.input[0]}_{wanted}", taken))
            cast_base = helper.make_node("Cast", node.input[:1], [new], to=enum_of(wanted))
            graph.node.insert([*graph.node].index(node), cast_base)
            node.input[0] = new
            touched |= {*node.output}


def _cast_operands(
    node: NodeProto, kind: str, known: Mapping[str, str | None], opset: int | None, before: Mapping[str, str]
) -> dict[int, str]:
    """Return the values of a type that a node reads through Casts to integers or float64, by its inputs.

    If an opset is given, only inputs that share the result's type count, and these only if some have this type. Without
    one, the node is a Pow; an exporter casts its base to bool if the exponent is one.
    """
    is_of_truths = opset is None and known.get(node.input[1]) == "bool"
    wrong = {*INTEGERS, "float64", *["bool"] * is_of_truths} - {kind}
    read = {i: name for i, name in enumerate(node.input) if name in before and known.get(name) in wrong}
    sources = {i: before[name] for i, name in read.items() if known.get(before[name]) == kind}
    if opset is None or not sources:
        return sources
    alike = next((each for each, gives_result in of_one_type(node, opset) if gives_result), {})
    return {i: name for i, name in sources.items() if i in alike and kind in map(known.get, alike.values())}


def _is_base_of(kind: str, x: str | None, y: str | None, *, is_one: bool) -> bool:
    """Tell whether a framework casts a base of a type for a result of another one, which the exponent has."""
    is_wider = (x in INTEGERS and y in FLOATS) or (x in TYPES and holds(kind, x))
    return (x != y == kind and is_wider and (x in INTEGERS or not is_one)) or (x == "bool" and kind in TYPES)


def _declared_types(graph: GraphProto) -> dict[str, str]:
    infos = reversed((*graph.output, *graph.value_info))  # of a name's declarations, the first counts
    kinds = {info.name: info.type.tensor_type.elem_type for info in infos}
    return {name: str(type_of(kind)) for name, kind in kinds.items() if kind in _KINDS}


def contradicted(model: ModelProto) -> Iterator[tuple[str, NodeProto, AttributeProto, str]]:
    """Yield the nodes with an attribute that is another type than their outputs are declared in, and that type."""
    for _, graph in walk.graphs(model.graph):
        declared_as = _declared_types(graph)
        for index, node in enumerate(graph.node):
            kinds = [a for a in node.attribute if a.name in ("to", "dtype") and a.i in _KINDS]
            wanted = declared_as.get([*node.output, ""][0])
            is_plain = len(kinds) == 1 and not walk.plain_domain(node.domain)
            if is_plain and wanted not in (None, type_of(kinds[0].i)):
                yield label(node, index, ""), node, kinds[0], wanted


def _verify(source: Onnx, new: Onnx, changes: Sequence[Change], feed: Feed) -> Verification:
    """Run the repaired model, and the broken one in OpenVINO where that is installed and takes it."""
    new = new.of(new.proto).check()
    with suppress(errors.HalfulpError):
        compared = compare_network(new, as_read(source), feed)
        if not compared.failure:  # otherwise OpenVINO reads the broken model and does not run it
            # OpenVINO's reading of a broken model is one of several, and says nothing against the repair.
            read = f"OpenVINO reads the {'broken ' * bool(changes)}model otherwise"
            other = (f"{read}: {line}" for line in compared.differences)
            return replace(compared, differences=(), notes=(*other, *compared.notes))
    engine, (run,) = runs(new)
    try:
        _, outputs, told = feed.first(new, run)
    except errors.HalfulpError as error:
        return Verification(engine=engine, failure=error.line)
    elements = sum(array.size for array in outputs.values() if isinstance(array, np.ndarray))
    note = f"the model runs in {engine}; nothing was repaired"
    if changes:
        note = f"the repaired model runs in {engine}; no runtime that is installed takes the broken one"
    return Verification(1, elements, (), engine, told, notes=(note,), vacuous=vacuous(outputs))
