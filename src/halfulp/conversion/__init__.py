"""Converting an ONNX model to another opset or target, or to OpenVINO's IR, with the same meaning: ``hu.convert``."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Unpack, get_args

from onnx import ModelProto

from halfulp.conversion import spellings
from halfulp.conversion.editor import Change
from halfulp.conversion.float32 import FLOAT32, compare_with_float32, has_halves
from halfulp.conversion.network import Network, compare_network, to_network
from halfulp.conversion.opset import expand_operators, opset_of, to_opset
from halfulp.conversion.passes import Pass, check_result, lower, run_passes, save_onnx
from halfulp.conversion.rules import rewrite
from halfulp.conversion.targets import TARGET
from halfulp.conversion.verify import Feed, Verification, compare, verified
from halfulp.conversion.walk import Walk, check_clauses, drop_unreached
from halfulp.errors import HalfulpError, Printed, check_integer, check_sizes, count_of, did_you_mean
from halfulp.models.files import Format, Source, format_of, format_to_write
from halfulp.models.onnx import Onnx, parse
from halfulp.options import ConvertOptions, takes

__all__ = ["Conversion", "Format", "convert"]


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
        untouched: the bytes of the file, if nothing was changed and they are saved as they are.
    """

    model: ModelProto | Network
    changes: tuple[Change, ...] = ()
    verification: Verification | None = None
    folder: Path | None = None
    untouched: bytes | None = None
    _noun: ClassVar[str] = "change"

    @property
    def summary(self) -> str:
        """How many changes there are."""
        return count_of(sum(not change.is_notice for change in self.changes), self._noun)

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
            save_onnx(Onnx(self.model, folder=self.folder), Path(path), self.untouched)


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
        >>> print(conversion)
        #0 (Pow): Y is unsqueezed to float32[3, 1], where axis=1 puts it
        1 change
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
    asked = {name: values[name] for name in PASSES if values[name] is not None}
    before, new, changes = _read(model)
    wanted = to or ("onnx" if output is None else format_to_write(output))
    if wanted != "onnx" and asked:
        *others, last = PASSES
        raise HalfulpError(f"{', '.join(others)} and {last} are for what becomes an ONNX model", got=wanted)
    network = None
    if wanted == "onnx":
        changes += run_passes(new, *((each, asked[name]) for name in asked for each in PASSES[name]))
        changes += check_result(new, before, asked.get("opset"))
    else:
        network, more = to_network(new)
        changes += more
    conversion = Conversion(network or new.proto, tuple(changes), None, None if network else before.folder)
    if output is not None:
        conversion.save(output)
    if not values["verify"]:
        return conversion
    feed = Feed(0, dims, inputs, progress)
    after = before.of(new.proto)
    if network is not None:
        found = compare_network(before, network, feed)
    elif "float32" in asked or ("fuse" in asked and has_halves(before.proto)):
        found = compare_with_float32(before, after.check(), feed, is_fused="fuse" in asked)
    else:
        found = compare(before, after.check(), feed, changes)
    return replace(conversion, verification=found)


_SPELLINGS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "PRelu": {
        "expand": (spellings.EXPAND_PRELU, lambda node, edit: edit.type_of(node.input[0])),
        "relu": (spellings.PRELU_BY_RELU, lambda node, edit: edit.type_of(node.input[0])),
        "fold": (spellings.FOLD_PRELU, spellings.why_prelu_stays),
    },
    "Pow": {
        "expand": (spellings.EXPAND_POW, spellings.why_pow_stays),
        "logarithms": (spellings.POW_BY_LOGARITHMS, partial(spellings.why_pow_stays, is_exact=False)),
        "fold": (spellings.FOLD_POW, None),
    },
}
"""By operator and an option's value: the rules, and what says why a node stays to which none applies."""


def _spelled(op_type: str, walk: Walk, how: str) -> None:
    """Write the Pow or PRelu nodes of a model in other operators, or these as Pow or PRelu."""
    tables = _SPELLINGS[op_type]
    if str(how) not in tables:
        raise HalfulpError(f"no way {how!s:.80} to write {op_type}; {did_you_mean(str(how), tables)}")
    opset_of(walk)
    rewrite(walk, *tables[how])


PASSES: dict[str, tuple[Pass, ...]] = {
    "opset": (to_opset, lower),
    "target": TARGET,
    "expand": (expand_operators,),
    "prelu": (partial(_spelled, "PRelu"),),
    "pow": (partial(_spelled, "Pow"),),
    "fuse": (spellings.fuse_norms,),
    "float32": FLOAT32,
}
"""The passes that each option of :func:`convert` asks for, in the order in which they run."""


def _read(source: Source) -> tuple[Onnx, Walk, list[Change]]:
    """Return an ONNX model, a walk through a copy of it, and the changes so far."""
    if format_of(source) != "onnx":
        name = "<bytes>" if isinstance(source, bytes) else str(source)
        raise HalfulpError(f"{name}: only ONNX models are converted", expected=".onnx, to .onnx or .xml")
    lines: list[str] = []
    before = parse(source, report=lines.append).check()
    changes = [Change(before.file, line) for line in lines]
    walk = Walk(before.copy())
    return before, walk, changes + drop_unreached(walk) + check_clauses(walk)
