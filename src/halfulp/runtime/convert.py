"""Converting a model so that it says the same elsewhere: ``hu.convert``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto

from halfulp.errors import ModelError
from halfulp.frontends import onnx as onnx_front_end
from halfulp.frontends.graph import printable
from halfulp.frontends.load import Source
from halfulp.frontends.onnx_builder import build
from halfulp.runtime import convert_verify
from halfulp.runtime.convert_editor import Change
from halfulp.runtime.convert_onnx import to_opset
from halfulp.runtime.convert_save import save_onnx
from halfulp.runtime.convert_target import for_target
from halfulp.runtime.convert_verify import Verification


@dataclass(frozen=True)
class Conversion:
    """A converted model, and what was done to it.

    Attributes:
        model: an ``onnx.ModelProto``, which ``hu.run`` takes.
        changes: what was done to which node, and whether the result can still differ from the exact one.
        verification: what running both models found, where that was asked for.
        folder: where the model's external data lies.
    """

    model: ModelProto
    changes: tuple[Change, ...] = ()
    verification: Verification | None = None
    folder: Path | None = field(default=None, repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, and its external data beside it, whole or not at all.

        Raises:
            HalfulpError: it can't be written, or a file of external data would replace another.
        """
        save_onnx(self.model, self.folder, Path(path))


def convert(
    model: Source,
    output: str | os.PathLike[str] | None = None,
    *,
    opset: int | None = None,
    target: str | None = None,
    verify: bool = False,
    seed: int = 0,
) -> Conversion:
    """Convert a model so that it says the same elsewhere.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto`` (which is left as it is).
        output: where to write the result; nowhere if not given. What differs is written too: look at
            the verification.
        opset: the version of ONNX's own operators to convert to, older or newer.
        target: ``onnxruntime``, ``openvino``, ``directml`` or ``tensorrt``: rewrite the model so that it
            accepts each Pow and PRelu.
        verify: whether to run both models on seeded inputs, special values included, and to compare
            every bit of the outputs.
        seed: for those inputs.

    Returns:
        The new model with what was done to it, a line each.

    Raises:
        UnsupportedError: a node that has no exact form there, named, and why.
        ModelError: the model is broken, or a node breaks a clause of its operator.

    Example:
        >>> from onnx import parser
        >>> model = parser.parse_model('''<ir_version: 8, opset_import: ["": 6]>
        ...     g (float[N, 3, 4] x, float[3] y) => (float[N, 3, 4] z) { z = Pow<axis=1, broadcast=1>(x, y) }''')
        >>> conversion = convert(model, opset=15, verify=True)
        >>> print(*conversion.changes)
        #0 (Pow): Y is unsqueezed to float32[3, 1], where axis=1 puts it
        >>> print(conversion.verification)
        the same bits: 144 elements of outputs, 4 sets of inputs
    """
    source, file, folder = onnx_front_end.parse(model)
    before = build(source, file, folder)
    result = ModelProto()
    result.CopyFrom(source)
    changes = [] if opset is None else to_opset(result, opset, file, folder)
    if target is not None:
        changes += for_target(result, target, file, folder)
    changes += _check(result, source, file)
    after = build(result, file, folder)
    found = convert_verify.verify(before, after, seed=seed) if verify else None
    conversion = Conversion(result, tuple(changes), found, folder)
    if output is not None:
        conversion.save(output)
    return conversion


def _check(result: ModelProto, source: ModelProto, file: str) -> list[Change]:
    """Let the onnx package check the result; what it holds against the source as well is only said."""
    reason = _refusal(result)
    if reason is None:
        return []
    if _refusal(source) is None:
        raise ModelError(f"converted, it would not pass the onnx package's checker: {reason}", file=file)
    return [Change(file, f"does not pass the onnx package's checker, as it did not before: {reason}")]


def _refusal(model: ModelProto) -> str | None:
    try:
        onnx.checker.check_model(_without_data(model), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return printable(" ".join(str(error).split()))
    return None


def _without_data(model: ModelProto) -> ModelProto:
    """Return a model whose external tensors are inputs: the checker would look for their files here."""
    external = [t for t in model.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    if not external:
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    inputs = {info.name for info in copy.graph.input}
    names = {tensor.name for tensor in external}
    for index in reversed(range(len(copy.graph.initializer))):
        if copy.graph.initializer[index].name in names:
            del copy.graph.initializer[index]
    for tensor in external:
        if tensor.name not in inputs:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            copy.graph.input.append(info)
    return copy
