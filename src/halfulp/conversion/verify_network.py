"""Comparing an ONNX network with the IR that OpenVINO's reader made of it: each runs in its own runtime.

Convolutions and sums are added up in another order there, so bits can't be asked for; what is said is how far the
outputs are apart, with our operators in OpenVINO and with its own. Some networks, such as those that quantize their
activations as they run, differ from runtime to runtime without any conversion. Where the outputs are far apart, the IR
is compared with the unconverted network in OpenVINO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from halfulp.conversion.network import Network, as_read, openvino
from halfulp.conversion.subject import Subject, runs
from halfulp.conversion.verify import Verification, nothing_told
from halfulp.errors import ModelError, UnsupportedError
from halfulp.models.graph import Array, Model
from halfulp.models.run.fitting import fit
from halfulp.models.run.report import show, vacuous

_TOLERANCE = 1e-2
"""Of an output's greatest magnitude: further away it is no other order of summing up."""


def compare_network(
    before: Subject,
    network: Network,
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Run a model in ONNX Runtime, or node by node where that is not installed, and its IR in OpenVINO.

    Args:
        before: the ONNX model.
        network: its IR, which runs in f32 on the CPU: with our operators, and with OpenVINO's own.
        seed, dims, inputs, progress: as for :func:`halfulp.conversion.verify.compare`; there are no special values.

    Returns:
        What was found: a line for each output, and a difference where it is more than a hundredth of the output's
        greatest magnitude away, from the original and from the unconverted network in OpenVINO.
    """
    model = before.model
    assert isinstance(model, Model)
    _, (run,) = runs(before)
    told, notes = "", list[str]()
    try:
        # Both: OpenVINO refuses images that are smaller than a window, which ONNX Runtime takes.
        if inputs is None:
            trial = _runner(network, exact=False)

            def in_both(tried: Mapping[str, Array]) -> dict[str, Any]:
                found = trial(tried)
                return {**run(tried), **{f"{name} in openvino": array for name, array in found.items()}}

            made = fit(model, in_both, seed=seed, dims=dims, progress=progress)
            inputs, told = made.inputs(model, seed), str(made)
        expected = run(inputs)
        # Compiled anew: after an inference that failed OpenVINO may give NaN.
        answers = [_runner(network, exact=exact, notes=notes)(inputs) for exact in (True, False)]
    except (ModelError, UnsupportedError) as error:
        return Verification(0, 0, (), "openvino", failure=error.message)
    version = openvino().__version__.partition("-")[0]
    differences: list[str] = []
    reasons = vacuous(expected)
    unconverted: Mapping[str, Array] | None = None
    for name, right in expected.items():
        ours, theirs = (_apart(right, answer.get(name)) for answer in answers)
        line = f"output {name!r} in openvino {version}: {ours[1]} with halfulp's operators, {theirs[1]} with its own"
        near = ours[0]
        if not near:
            unconverted = _unconverted(before, network.file, inputs) if unconverted is None else unconverted
            near, distance = _apart(unconverted.get(name), answers[0].get(name))
            line += f"; from the unconverted network there: {distance}" if near else ""
        (notes if near else differences).append(line)
    elements = sum(
        right.size
        for name, right in expected.items()
        if isinstance(right, np.ndarray) and name not in reasons
    )
    failure = nothing_told(reasons) if len(reasons) == len(expected) and not differences else ""
    return Verification(
        1,
        elements,
        tuple(differences),
        "openvino",
        told,
        failure,
        notes=tuple(notes),
        vacuous=reasons,
    )


def _unconverted(before: Subject, file: str, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Return the outputs of the unconverted network in OpenVINO, with our operators; none if it does not run there."""
    assert before.proto is not None
    try:
        return _runner(as_read(before.proto, file, before.folder), exact=True)(inputs)
    except (ModelError, UnsupportedError):
        return {}


def _runner(
    network: Network, *, exact: bool, notes: list[str] | None = None
) -> Callable[[Mapping[str, Any]], dict[str, Array]]:
    """Return a function that runs a model in OpenVINO and gives its outputs by all of their names.

    Args:
        network: its model is left as it is.
        exact: whether halfulp's operators are put into a copy of it.
        notes: gets a sentence for each node that stays OpenVINO's own all the same.

    Raises:
        ModelError: OpenVINO does not compile it, or a node breaks a clause; the function raises it, too.
    """
    from halfulp.integrations.openvino import put_into
    from halfulp.integrations.openvino.operators import Compiled

    model = network.model.clone() if exact else network.model
    left = put_into(model) if exact else []
    if notes is not None:
        notes += left
    compiled = Compiled(model, network.file)

    def run(inputs: Mapping[str, Any]) -> dict[str, Array]:
        compiled.bind(inputs)
        compiled.infer()
        return compiled.named_outputs()

    return run


def _apart(right: Any, found: Any) -> tuple[bool, str]:
    """Return whether an output is near enough, and how far it is away."""
    if not isinstance(right, np.ndarray) or found is None:
        return False, "missing" if found is None else f"{show(right)} became {show(found)}"
    if right.shape != found.shape or right.dtype != found.dtype:
        return False, f"{show(right)} became {show(found)}"
    a, b = right.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(a)
    if (finite != np.isfinite(b)).any() or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False, "infinities or NaN in other places"
    if np.array_equal(a[finite], b[finite]):
        return True, "equal"
    greatest = float(np.abs(a[finite]).max())
    away = float(np.abs(a[finite] - b[finite]).max())
    return away <= _TOLERANCE * greatest, f"at most {away:.2g} away (of {greatest:.2g})"
