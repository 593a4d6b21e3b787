"""Converting an ONNX model to another opset or target, or to OpenVINO's IR, with the same meaning: ``hu.convert``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, Unpack, get_args

from onnx import ModelProto, NodeProto

from halfulp.conversion import powers, prelus
from halfulp.conversion.editor import Change, Editor, counted
from halfulp.conversion.float32 import compare_with_float32, has_halves, in_float32
from halfulp.conversion.network import Network, compare_network, to_network
from halfulp.conversion.norms import fuse_norms
from halfulp.conversion.opset import expand_operators, opset_of, to_opset
from halfulp.conversion.output import (
    correct_declarations,
    dropped_metadata,
    finish,
    lower,
    refusal,
    same_version,
    save_onnx,
)
from halfulp.conversion.rules import Rule, rewrite
from halfulp.conversion.targets import for_target
from halfulp.conversion.verify import Feed, Subject, Verification, compare, has_ours, verified
from halfulp.conversion.walk import Walk, check_clauses
from halfulp.errors import HalfulpError, ModelError, Printed, check_integer, check_sizes, did_you_mean
from halfulp.models import onnx as onnx_front_end
from halfulp.models.files import Format, Source, format_of, format_to_write
from halfulp.options import ConvertOptions, takes

__all__ = ["Conversion", "Format", "convert"]

_Steps: TypeAlias = Mapping[str, tuple[Callable[[Walk, Any], list[Change]], Any]]
"""The steps between ONNX models by the arguments that ask for them, in their order, each with that argument's value."""


@dataclass(frozen=True, repr=False)
class Conversion(Printed):
    """A converted model, and the changes made to it. ``print`` shows these as lines.

    Attributes:
        model: an ``onnx.ModelProto``; of one that has become an IR by OpenVINO's own reader its ``openvino.Model``,
            as ``model.model``.
        changes: the change to each node, and whether the result can still differ from the exact one;
            also the parts of the model that could not be carried over.
        verification: the result of running both models, if it was asked for.
        folder: where the external data of an ONNX model lies.
    """

    model: ModelProto | Network
    changes: tuple[Change, ...] = ()
    verification: Verification | None = None
    folder: Path | None = None
    _noun: ClassVar[str] = "change"

    @property
    def summary(self) -> str:
        """How many changes there are."""
        return counted(self.changes, self._noun)

    def lines(self) -> list[str]:
        """Return a line for each change."""
        return [*map(str, self.changes)]

    def __repr__(self) -> str:
        return f"<Conversion to {type(self.model).__name__}: {self.summary}{verified(self.verification)}>"

    def __str__(self) -> str:
        checked = [] if self.verification is None else [str(self.verification)]
        return "\n".join([*self.lines(), self.summary, *checked])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and the files that belong to it, whole or not at all.

        Raises:
            HalfulpError: it can't be written, or a file of external data would replace another.
        """
        if isinstance(self.model, Network):
            self.model.save(Path(path))
        else:
            save_onnx(self.model, self.folder, Path(path))


@takes(ConvertOptions)
def convert(
    model: Source,
    output: str | os.PathLike[str] | None = None,
    *,
    to: Format | None = None,
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Unpack[ConvertOptions],
) -> Conversion:
    """Convert an ONNX model to another opset or target, or to OpenVINO's IR, with the same meaning.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto`` (which is not changed).
        output: where to write the result; nowhere if not given. It is written before it is verified, whatever
            that finds.
        to: the format, ``onnx`` or ``openvino``; that of ``output`` by its suffix, or ``onnx``, where not given.
        opset: for ONNX: the version of its own operators to convert to, older or newer.
        target: ``onnxruntime``, ``openvino``, ``directml``, ``cuda``, ``tensorrt``, ``iree``: rewrite an ONNX model so
            that it accepts each Pow and PRelu; ``basic``: so that it has neither.
        expand: for ONNX: names of operators with commas between them, such as ``ReduceL2,Gelu``, to write in others:
            as the function bodies of the onnx package.
        prelu: for ONNX: ``expand`` each PRelu into operators that every runtime has (``relu``: into sums of Relu,
            without comparisons), or ``fold`` such back. Slopes that nodes compute of constants are stored.
        pow: for ONNX: ``expand`` each Pow with a constant exponent into products, roots or a reciprocal, or ``fold``
            such operators back into Pow, where every bit stays. ``logarithms`` expands likewise, and approximates each
            other Pow of floats by Exp and Log.
        float32: for an ONNX network of float16 or bfloat16: the nodes to compute in float32, with casts
            around them: ``norms`` (each from its squares to its root or division), ``pow``, ``all``, or names of
            nodes with commas between them. Verified, the outputs before and after are compared with those of the
            network in float32 throughout.
        fuse: for ONNX: ``norms``: write each norm that is exactly LayerNormalization-17 or RMSNormalization-23 as that.
        verify: whether to run both models on seeded inputs, special values included, and to compare every bit
            of the outputs: in ONNX Runtime with halfulp's operators, where it is installed and the model has
            others. An IR also runs in OpenVINO, where that is installed.
        dims: sizes of the inputs' symbolic dims; sizes that run are found for the others.
        inputs: arrays by name, to verify with instead of inputs that are made up.
        progress: gets a line for each run of a verification.

    Returns:
        The new model with a line for each change.

    Raises:
        UnsupportedError: a node that has no exact form there, named, and why.
        ModelError: the model is broken, or a node breaks a clause of its operator.
        HalfulpError: the format, opset or target does not exist, or the result can't be written.

    Example:
        >>> from onnx import parser
        >>> model = parser.parse_model('''<ir_version: 8, opset_import: ["": 6]>
        ...     g (float[N, 3, 4] x, float[3] y) => (float[N, 3, 4] z) { z = Pow<axis=1, broadcast=1>(x, y) }''')
        >>> conversion = convert(model, opset=15, verify=True)
        >>> print(*conversion.changes)
        #0 (Pow): Y is unsqueezed to float32[3, 1], where axis=1 puts it
        >>> print(conversion.verification)
        the same bits: 48 elements of outputs, 4 sets of inputs
        dims made up: N=1; -i DIM=N changes one
    """
    values: dict[str, Any] = {**options}
    if values["opset"] is not None:
        check_integer("opset", values["opset"])
    for option, named in (("float32", "nodes"), ("expand", "operators")):
        if not isinstance(value := values[option], str | None):
            raise HalfulpError(f"{option} takes names of {named} in one text", got=repr(value)[:80])
    check_sizes(dims)
    if (fuse := values["fuse"]) not in (None, "norms"):
        raise HalfulpError(f"only norms are fused, not {str(fuse)[:80]}; did you mean norms?")
    if to is not None and to not in get_args(Format):
        raise HalfulpError("no such format", expected=", ".join(get_args(Format)), got=repr(to)[:80])
    steps: dict[str, Callable[[Walk, Any], list[Change]]] = {
        "opset": lambda walk, to: to_opset(walk, to) + lower(walk.model, to, walk.file),
        "target": for_target,
        "expand": expand_operators,
        "prelu": partial(_spelled, "prelu"),
        "pow": partial(_spelled, "pow"),
        "fuse": lambda walk, _: fuse_norms(walk),
        "float32": in_float32,
    }
    asked = {name: (step, values[name]) for name, step in steps.items() if values[name] is not None}
    work = _Work(model)
    wanted = to or ("onnx" if output is None else format_to_write(output))
    if wanted != "onnx" and asked:
        *others, last = steps
        raise HalfulpError(f"{', '.join(others)} and {last} are for what becomes an ONNX model", got=wanted)
    if wanted == "onnx":
        work.edit(asked)
    else:
        work.become_network()
    conversion = Conversion(work.model, tuple(work.changes), None, work.folder)
    if output is not None:
        conversion.save(output)
    if not values["verify"]:
        return conversion
    return replace(conversion, verification=work.compared(Feed(0, dims, inputs, progress), asked))


_SPELLINGS: Mapping[str, Mapping[str, tuple[Rule, ...]]] = {
    "prelu": {"expand": prelus.EXPAND, "relu": prelus.BY_RELU, "fold": prelus.FOLD},
    "pow": {"expand": powers.EXPAND, "logarithms": powers.LOGARITHMS, "fold": powers.FOLD},
}
"""The rules by option and value."""


def _spelled(option: str, walk: Walk, how: str) -> list[Change]:
    """Write the Pow or PRelu nodes of a model in other operators, or these as Pow or PRelu; return the changes."""
    tables = _SPELLINGS[option]
    if str(how) not in tables:
        name = {"prelu": "PRelu", "pow": "Pow"}[option]
        raise HalfulpError(f"no way {how!s:.80} to write {name}; {did_you_mean(str(how), [*tables])}")
    opset_of(walk.model, walk.file)
    stays: Callable[[NodeProto, Editor], None] | None
    if option == "pow":
        stays = None if how == "fold" else partial(powers.why_it_stays, is_exact=how == "expand")
    else:
        stays = prelus.why_it_stays if how == "fold" else prelus.refuse
    rewrite(walk, tables[how], stays)
    return finish(walk)


class _Work:
    """A conversion under way."""

    def __init__(self, source: Source) -> None:
        if format_of(source) != "onnx":
            name = "<bytes>" if isinstance(source, bytes) else str(source)
            raise HalfulpError(f"{name}: only ONNX models are converted", expected=".onnx, to .onnx or .xml")
        sorted_: list[str] = []
        proto, self.file, self.folder = onnx_front_end.parse(source, report=sorted_.append)
        self.changes = [Change(self.file, line) for line in sorted_]
        self.before = Subject.of(proto, self.file, self.folder)
        self._source = proto
        self._proto = deepcopy(proto)
        self.model: ModelProto | Network = self._proto
        self._walk: Walk | None = None  # through the source model, which takes a while to prepare
        if has_ours(self.before):
            self._walk = check_clauses(Walk(self._proto, self.file, self.folder))
            self.changes += self._walk.told()

    def become_network(self) -> None:
        """Convert the model to OpenVINO's form."""
        lost = dropped_metadata(self._proto, self.file)
        self.model, changes = to_network(self._proto, self.file, self.folder)
        self.changes += lost + changes
        self.folder = None

    def edit(self, asked: _Steps) -> None:
        """Take the model through the steps that are asked for, and check the result."""
        model, source = self._proto, self._source
        for step, value in asked.values():
            walk, self._walk = self._walk or Walk(model, self.file, self.folder), None
            self.changes += step(walk, value)
        found = refusal(model)
        if found is None:
            return
        if refusal(source) is not None:
            # A checker error that the source model has, too, is only reported.
            said = f"does not pass the onnx package's checker, nor did it before: {found.reason}"
            self.changes.append(Change(found.node or self.file, said, is_notice=True))
            return
        self.changes += correct_declarations(model, self.file, {}, source=source)
        found = refusal(model)
        if found is None:
            return
        shown = {}
        if "opset" in asked:
            same = same_version(found.op_type, opset_of(source, self.file))
            if same and asked["opset"][1] not in same:
                shown["expected"] = f"--opset {same[0]} to {same[-1]}, where {found.op_type} stays unchanged"
        said = f"converted, it would not pass the onnx package's checker: {found.reason}"
        raise ModelError(said, file=self.file, node=found.node, **shown)

    def compared(self, feed: Feed, asked: _Steps) -> Verification:
        """Run the model before and after the steps that are asked for."""
        if isinstance(self.model, Network):
            return compare_network(self.before, self.model, feed)
        after = Subject.of(self.model, self.file, self.folder)
        is_fused = "fuse" in asked
        if "float32" in asked or (is_fused and has_halves(self._source)):
            return compare_with_float32(self.before, after, feed, is_fused=is_fused)
        return compare(self.before, after, feed, self.changes)
