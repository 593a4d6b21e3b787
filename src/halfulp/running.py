"""Run a model in a suitable engine: ``hu.run``, and the details that ``halfulp run`` shows.

ONNX Runtime with halfulp's operators evaluates a network much faster than the walk in
:mod:`halfulp.models.run.api`. If halfulp has all operators of a model, no other engine is needed.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from halfulp.auditing.data import losses_in
from halfulp.conversion.verify import is_all_ours
from halfulp.conversion.walk import check_clauses
from halfulp.errors import HalfulpError, ModelError, check_integer, check_sizes
from halfulp.installed import has_module
from halfulp.integrations import ir
from halfulp.models.files import Source, format_of
from halfulp.models.graph import Model
from halfulp.models.onnx import Onnx, parse
from halfulp.models.run import api
from halfulp.models.run.inputs import fit, needed
from halfulp.models.run.report import RunReport, losses

Engine = Literal["auto", "onnxruntime", "halfulp"]
Inputs = Mapping[str, Any] | Literal["random"]

_MOST_NAMED = 3  # maximum number of inputs in the call that an error shows


@dataclass(frozen=True)
class Run:
    """A run of a model."""

    outputs: api.Outputs  # by name, with the inputs
    engine: str  # a line with the engine that ran the model, and the reason if another one was possible
    report: RunReport | None  # the engine of each node, if a report was requested
    made_up: str = ""  # a line about made-up inputs; empty if no size was made up
    # A line for each Pow and PRelu node with results that are infinite or NaN though the operands are finite. In ONNX
    # Runtime, only networks with tensors of float16 or bfloat16 are looked at, and bodies of control flow only in small
    # ones.
    lost: tuple[str, ...] = ()


def run(
    model: Source,
    inputs: Inputs | None = None,
    *,
    engine: Engine = "auto",
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
) -> api.Outputs:
    """Evaluate a model and return its outputs by name, as ``halfulp run`` does.

    Args:
        model: a path (.xml is OpenVINO's, anything else ONNX), the bytes of a file, or an ``onnx.ModelProto``.
        inputs: arrays by name, or ``"random"`` to make up all inputs, with batches of 1 and the sizes that constants
            force. If an input has an initializer of its name, it may be left out. For OpenVINO, a name is that of a
            tensor or a Parameter.
        engine: ``onnxruntime``, with halfulp's Pow and PRelu in it, or ``halfulp``, node by node. ``auto``
            means onnxruntime if an ONNX model has operators that halfulp lacks, and onnxruntime is installed
            and takes it; and OpenVINO, with halfulp's Power and PReLU in it, if an IR file has layers that halfulp
            lacks, and openvino is installed.
        dims: sizes of symbolic dims of made-up inputs. A dim without a name is called ``INPUT[AXIS]``.
        seed: the seed of made-up inputs.

    Returns:
        A dict of the model's outputs: arrays, and lists for sequences. Its ``inputs`` are the given or made-up inputs,
        and its ``vacuous`` has the names of outputs that verify nothing, each with the reason. The key of an OpenVINO
        output is its tensor name; its Result's name works too.

    Warns:
        RuntimeWarning: once for each Pow or PRelu node with results that are infinite or NaN though its
            operands are finite. ``hu.audit(model, inputs=...)`` gives the details.

    Raises:
        ModelError: the model is broken or unsafe, an input is missing, an input or a result contradicts the model's
            declaration, or a node breaks a clause of its operator (then ``.clause`` is set).
        UnsupportedError: an operator that no engine here evaluates.
        HalfulpError: ``onnxruntime`` is requested and cannot run the model, or options contradict each other.

    Example:
        >>> import numpy as np
        >>> from onnx import parser
        >>> model = parser.parse_model('''<ir_version: 8, opset_import: ["": 15]>
        ...     g (float[N] x) => (float[N] y) { two = Constant<value_int=2>()  y = Pow(x, two) }''')
        >>> run(model, {"x": np.array([3, -0.5], np.float32)})
        {'y': array([9.  , 0.25], dtype=float32)}
        >>> run(model, "random", dims={"N": 2}, seed=1)["y"].shape
        (2,)
    """
    read = opened(model, engine)
    result = evaluate(read, inputs, engine, dims=dims, seed=seed)
    for line in result.lost:
        warnings.warn(f"{read.file}: {line}", RuntimeWarning, stacklevel=2)
    return result.outputs


def opened(source: Source, engine: str = "auto") -> Model:
    """Read a model for :func:`evaluate`: an ``Onnx``, or one of another format.

    Raises the errors of :func:`run` that are about the model and the engine's name.
    """
    if engine not in get_args(Engine):
        raise HalfulpError("no such engine", expected=", ".join(get_args(Engine)), got=repr(engine)[:80])
    if format_of(source) != "onnx":
        return ir.load(source)
    model = parse(source).check(keep_unknown=engine != "halfulp")
    check_clauses(model)
    return model


def evaluate(
    model: Model,
    inputs: Inputs | None,
    engine: str = "auto",
    *,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    with_report: bool = False,
) -> Run:
    """Run a model that :func:`opened` returned as :func:`run` does, and return the outputs with details of the run."""
    _check_options(model, inputs, dims, seed)
    if not isinstance(inputs, str):
        return _evaluate(model, engine, with_report, {} if inputs is None else inputs)
    run = partial(_evaluate, model, engine, with_report)
    made_up, result = fit(model, run, seed=seed, dims=dims)
    return replace(result, made_up=str(made_up))


def _evaluate(model: Model, engine: str, with_report: bool, values: Mapping[str, Any]) -> Run:
    why_not = "" if engine == "halfulp" else _why_not(model, engine)
    if engine == "onnxruntime" and why_not:
        raise HalfulpError(f"{model.file}: not for the engine onnxruntime: {why_not}")
    if isinstance(model, Onnx) and engine != "halfulp" and not why_not:
        from halfulp.integrations.onnxruntime.engine import Refused

        try:
            return _in_onnxruntime(model, values, with_report)
        except Refused as refused:
            if engine == "onnxruntime":
                raise
            why_not = refused.message
    if engine == "auto" and api.foreign(model.graph.nodes):
        from halfulp.integrations.openvino.engine import Runner

        runner = Runner(model)
        outputs = api.Outputs(runner(values), model.graph.outputs, values)
        return Run(outputs, "engine: openvino, with Power and PReLU by halfulp", runner.report())
    outputs, report = api.run_with_report(model, values)
    line = f"engine: halfulp ({why_not})" if why_not else "engine: halfulp"
    return Run(outputs, line, report, lost=tuple(losses(report.lost)))


def _in_onnxruntime(model: Onnx, values: Mapping[str, Any], with_report: bool) -> Run:
    from halfulp.integrations.onnxruntime import engine

    report = None
    if with_report:
        _, arrays, (report,) = engine.open_profiled(model, values)
    else:
        arrays = engine.runner(model)(values)
    # An array of ONNX Runtime keeps all the memory of its session's tensors.
    arrays = {name: v.copy() if isinstance(v, np.ndarray) else v for name, v in arrays.items()}
    lost, sees_all = losses_in(model, values)
    line = "engine: onnxruntime, with Pow and PRelu by halfulp"
    if not sees_all:
        line += "; not every Pow and PRelu in bodies and functions was looked at for lost results"
    outputs = api.Outputs(arrays, model.graph.outputs, values)
    return Run(outputs, line, report, lost=tuple(losses(lost)))


def _check_options(model: Model, inputs: Inputs | None, dims: Mapping[str, int] | None, seed: int) -> None:
    check_integer("seed", seed, 0)
    check_sizes(dims)
    if isinstance(inputs, str) and inputs != "random":
        raise HalfulpError("inputs must be a dict of arrays by name, or 'random'", got=repr(inputs)[:80])
    if dims and not isinstance(inputs, str):
        raise HalfulpError("dims are for inputs that are made up: inputs='random'")
    if inputs is None and (missing := needed(model)):
        values = ", ".join(f"{value.name!r}: array" for value in missing[:_MOST_NAMED])
        more = ", ..." if len(missing) > _MOST_NAMED else ""
        message = (
            f"no value is given for its inputs: pass {{{values}{more}}}, or 'random' to have them made up"
        )
        expected = ", ".join(f"{value.name}: {value}" for value in missing)
        raise ModelError(message, file=model.file, expected=expected)


def _why_not(model: Model, engine: str) -> str:
    """Return the reason for not trying onnxruntime; empty if it may be tried."""
    if not isinstance(model, Onnx):
        return "onnxruntime runs ONNX files only"
    if not has_module("onnxruntime"):
        return "onnxruntime is not installed"
    return "it has all operators of the model" if engine == "auto" and is_all_ours(model) else ""
