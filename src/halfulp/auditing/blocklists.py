"""Lists of nodes that must stay in float32, in the syntax of the tools that convert a network to float16."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from halfulp.errors import HalfulpError

_CONVERTERS = """\
# model = onnx.load(...)
{imports}
import halfulp
names = {names}
model = float16.convert_float_to_float16(model, keep_io_types=True, node_block_list=names)
# Between neighbours in the list the converter casts to float16 and back. This takes those casts away.
model = halfulp.convert(model, float32=",".join(names)).model"""
_TENSORRT = """\
# TensorRT 10 and older. TensorRT 11 has no such options: it computes in the model's types, which modelopt sets.
"""
_OPENVINO = """\
# OpenVINO takes no list of nodes. Have the device compute the whole network in float32:
compiled = openvino.compile_model(model, "GPU", {{"INFERENCE_PRECISION_HINT": "f32"}})
# Nodes that overflow: {names}"""
_NNCF = """\
# nncf.quantize(model, calibration_dataset, ...) with
ignored_scope=nncf.IgnoredScope(names={names}, validate=False)"""
_COREML = """\
# coremltools.convert(traced, ..., compute_precision=precision), where these are modules of the network in PyTorch:
from coremltools.converters.mil.mil.scope import ScopeSource
modules = [name.split(".") for name in {names}]
def in_float16(op):
    *scope, _ = op.scopes.get(ScopeSource.TORCHSCRIPT_MODULE_NAME) or [""]  # without the names of module lists
    return not any(scope[-1:] == names[-1:] and set(scope) <= set(names) for names in modules)
precision = coremltools.transform.FP16ComputePrecision(op_selector=in_float16)"""
_TORCH = """\
# The modules that these nodes come from; run each in float32 within autocast:
for name, module in model.named_modules():
    if name in {names}:
        def forward(*args, _inner=module.forward, **kwargs):
            args = [a.float() if torch.is_tensor(a) and a.is_floating_point() else a for a in args]
            with torch.autocast(args[0].device.type, enabled=False):
                return _inner(*args, **kwargs)
        module.forward = forward"""


def _python(template: str, **words: str) -> Callable[[Sequence[str]], str]:
    return lambda names: template.format(names=json.dumps(list(names)), **words)


def _trtexec(names: Sequence[str]) -> str:
    if odd := [name for name in names if set(",'") & set(name)]:
        raise HalfulpError("trtexec takes no layer's name with a comma or a quotation mark", got=odd[0])
    pairs = ",".join(f"{name}:fp32" for name in names)  # quotation marks would become part of the names
    given = shlex.quote(f"--layerPrecisions={pairs}"), shlex.quote(f"--layerOutputTypes={pairs}")
    return f"{_TENSORRT}trtexec --onnx=model.onnx --fp16 --precisionConstraints=obey {' '.join(given)}"


def _polygraphy(names: Sequence[str]) -> str:
    pairs = " ".join(shlex.quote(f"{name}:float32") for name in names)
    command = "polygraphy convert model.onnx --output model.plan --fp16 --precision-constraints obey"
    return f"{_TENSORRT}{command} --layer-precisions {pairs}"


def _modelopt(names: Sequence[str]) -> str:
    patterns = " ".join(shlex.quote(f"^{re.escape(name)}$") for name in names)
    command = "python -m modelopt.onnx.autocast --onnx_path model.onnx --output_path model_float16.onnx"
    return f"{command} --keep_io_types --nodes_to_exclude {patterns}"


TOOLS: Mapping[str, Callable[[Sequence[str]], str]] = {
    "onnxruntime": _python(_CONVERTERS, imports="from onnxruntime.transformers import float16"),
    "onnxconverter-common": _python(_CONVERTERS, imports="from onnxconverter_common import float16"),
    "trtexec": _trtexec,
    "polygraphy": _polygraphy,
    "modelopt": _modelopt,
    "openvino": _python(_OPENVINO),
    "nncf": _python(_NNCF),
    "coremltools": _python(_COREML),
    "torch": _python(_TORCH),
}
OF_MODULES = ("coremltools", "torch")
"""The tools that work on a network's PyTorch modules instead of its nodes."""


def blocklist(tool: str, names: Sequence[str]) -> str:
    """Return the option or code that makes a tool keep nodes in float32.

    Args:
        tool: one of :data:`TOOLS`.
        names: of the nodes, as the file spells them; for the tools of :data:`OF_MODULES`, of modules.

    Raises:
        HalfulpError: the tool does not exist, or a node has no name (tools identify nodes by name).
    """
    if tool not in TOOLS:
        raise HalfulpError("no list is known for this tool", expected=", ".join(TOOLS), got=tool)
    for name in names:
        if name.startswith("#"):
            raise HalfulpError(
                f"node {name} has no name, and tools know nodes by their names",
                expected="a name for each node: in Python, node.name = node.name or node.output[0]; a float16 network"
                " needs no names for halfulp convert --float32 norms",
            )
    return (
        TOOLS[tool](names)
        if names
        else "# Nothing to do: with these data, float16 holds the results of every node that was looked at."
    )
