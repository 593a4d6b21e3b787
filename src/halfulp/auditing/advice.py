"""What to do about a finding: a conversion that helps, or what computes the node exactly."""

from __future__ import annotations

import shlex

from halfulp.auditing.target import Statement
from halfulp.specs import ids

_EXACT = {
    "onnxruntime": "halfulp.integrations.onnxruntime.session(model) computes it exactly within ONNX Runtime",
    "openvino": "halfulp.integrations.openvino.replace(model) computes it exactly within OpenVINO",
    "torch": "halfulp.integrations.torch.replace(module) computes it exactly within PyTorch",
    "jax": "halfulp.integrations.jax has pow and prelu that are exact within JAX",
    "numpy": "hu.pow and hu.prelu are exact on NumPy's arrays",
}
_ELSE = "halfulp run computes it exactly"


def about_clause(operator: str) -> str:
    """Return what to do about a node that breaks its document."""
    return (
        f"mend the model; halfulp spec {operator} shows what is allowed"
        if operator in ids()
        else "mend the model"
    )


def about_target(file: str, said: Statement) -> str:
    """Return what to do about what a target makes of a node.

    A conversion helps where the target does not take the node as it is, or broadcasts it otherwise and nothing else
    is wrong. Everything else needs other kernels.

    Args:
        file: the model.
        said: what the target makes of the node: a finding.
    """
    found = said.conversion
    taken_otherwise = said.verdict in ("refused", "crashed", "hung") or (
        said.groups == ("broadcast",) and not said.depends
    )
    if taken_otherwise and found is not None and found.needed and found.refused is None:
        steps = "; ".join(map(str, found.steps))
        if file.startswith("<"):  # what has no file is converted in Python
            return f'hu.convert(model, target="{said.target}"): {steps}'
        return f"halfulp convert {shlex.quote(file)} mended.onnx --target {said.target}: {steps}"
    return _EXACT.get(said.target, _ELSE)
