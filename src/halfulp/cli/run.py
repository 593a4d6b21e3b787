"""``halfulp run``: evaluate a model, and report which engine evaluated each node."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from typer import Argument, Option

from halfulp.cli import shared
from halfulp.errors import in_shell, printable
from halfulp.models.files import write_npz
from halfulp.models.graph import Array, listed
from halfulp.models.run.report import NodeRun, RunReport, show
from halfulp.types import type_name

_MOST_ROWS = 60
_NUMBERS = ["least", "greatest", "NaN", "inf"]  # the columns of an array's range


def run(
    model: Annotated[Path, Argument(metavar="MODEL", help="An ONNX or OpenVINO (.xml) file.")],
    place: shared.Place = None,
    inputs: shared.Inputs = None,
    output: Annotated[
        shared.File,
        shared.output_option(
            "Write the outputs. NumPy has no name for bfloat16, float8, float4 and int4: they"
            " are stored as bytes; read them with array.view(ml_dtypes.bfloat16).",
            "OUT.npz",
        ),
    ] = None,
    force: shared.Force = False,
    engine: Annotated[
        Literal["auto", "onnxruntime", "halfulp"],
        Option(
            rich_help_panel="Engine",
            help="What runs an ONNX file: onnxruntime, with halfulp's Pow and PRelu in it; halfulp, node by node;"
            " auto is onnxruntime where halfulp lacks an operator of the model, and onnxruntime takes it.",
        ),
    ] = "auto",
) -> None:
    """Evaluate a model and print which engine evaluated each node, and the ranges of the outputs.

    Example: halfulp run net.onnx -i x=x.npy -o out.npz
    """
    from halfulp.models.onnx import Onnx
    from halfulp.models.run.report import sentence
    from halfulp.running import evaluate, opened

    (output,) = shared.placed(place, output)
    shared.check_writable(output, binary=True, read=[model, *shared.files_of(inputs)], force=force)
    loaded = opened(model, engine)
    files, dims = shared.parted(inputs)
    fed_arrays: dict[str, Array] | Literal["random"] = shared.fed(loaded, files) if files else "random"
    result = evaluate(loaded, fed_arrays, engine, dims=dims, with_report=True)
    outputs, report = result.outputs, result.report
    assert report is not None
    if output is not None:
        write_npz(output, _flat(outputs))
    to = shared.console()
    shared.say(to, *filter(None, (result.engine, result.made_up)))
    headers = ["node", "operator", "inputs", "outputs", "ms", "share", "evaluated by"]
    shared.print_rows(to, headers, _nodes(report), ["ms", "share"])
    shared.say(to, _summary(report))
    named = {"input" if files else "input (made up)": outputs.inputs, "output": outputs}
    for title in filter(named.get, named):
        shared.print_rows(to, [title, "type", *_NUMBERS], rows_of(named[title]), _NUMBERS)
    shared.say(to, *result.lost)
    if result.lost and isinstance(loaded, Onnx):
        words = " ".join(f"-i {shlex.quote(file)}" for file in files) or "--samples 1"
        shared.say(
            to, f"halfulp audit {in_shell(model)} {words} says where the infinities go, and what helps"
        )
    shared.say(to, *(sentence(name, reason) for name, reason in outputs.vacuous.items()))
    if outputs.vacuous and not files:
        shared.say(to, "-i NAME=FILE gives it other inputs")
    if output is not None:
        shared.say(to, f"written to {output}")


def _flat(outputs: dict[str, object]) -> dict[str, Array]:
    """Return the outputs as arrays. A sequence becomes name.0, name.1 and so on."""
    flat: dict[str, Array] = {}
    for name, value in outputs.items():
        items = {f"{name}.{i}": v for i, v in enumerate(value)} if isinstance(value, list) else {name: value}
        flat.update({key: item for key, item in items.items() if isinstance(item, np.ndarray)})
    return flat


# --- tables --------------------------------------------------------------------------------------


def _nodes(report: RunReport) -> list[list[str]]:
    """Return the cells of a run's nodes. Of a long run, only the first ones of halfulp have rows of their own."""
    total = report.seconds or 1.0
    cells = []
    for row in report.nodes if len(report.nodes) <= _MOST_ROWS else _grouped(report.nodes):
        label = f"{row.label}, {row.calls} times" if row.calls > 1 else row.label
        times = f"{row.seconds * 1e3:.3f}", f"{row.seconds / total:.0%}"
        named = label, row.operator, "\n".join(row.inputs), "\n".join(row.outputs), *times, row.engine
        cells.append(list(map(_cell, named)))
    return cells


def _grouped(rows: list[NodeRun]) -> list[NodeRun]:
    """Return the first of halfulp's own nodes, and all others together by operator and engine."""
    own = [row for row in rows if row.operator.startswith(("onnx.Pow-", "onnx.PRelu-"))][:_MOST_ROWS]
    groups: dict[tuple[str, str], NodeRun] = {}
    for row in rows:
        if row not in own:
            key = row.operator, row.engine
            group = groups.setdefault(key, NodeRun("all others of these", *key))
            group.seconds += row.seconds
            group.calls += row.calls
    return [*own, *groups.values()]


def _summary(report: RunReport) -> str:
    """Return a line with the part of the run that halfulp evaluated."""
    engines = [row.engine for row in report.nodes]
    own = engines.count("halfulp")
    rest = len(engines) - own
    runtimes = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
    others = [runtimes[engine] for engine in engines if engine in runtimes]
    other = (others or ["the onnx package's reference evaluator"])[0]
    text = f"halfulp evaluated {own} of {len(report.nodes)} nodes, {report.share:.0%} of the time"
    operators = listed(sorted({row.operator for row in report.nodes if row.engine != "halfulp"}))
    return f"{text}; {other} the other {rest}: {operators}" if rest else text


def rows_of(named: Mapping[str, Any]) -> list[list[str]]:
    """Return the cells of arrays: name, type and shape, range, count of NaNs and infinities."""
    return [list(map(_cell, (name, show(value), *_range(value)))) for name, value in named.items()]


def _cell(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _range(value: Any) -> tuple[str, ...]:
    is_array = isinstance(value, np.ndarray) and value.size > 0
    if not is_array or value.dtype.kind == "c" or type_name(value.dtype) == "string":
        return ("",) * 4
    if value.dtype.kind in "biu":
        return str(value.min()), str(value.max()), "", ""
    # The small types of ml_dtypes have no reductions. float64 holds all their values.
    real: Array = value if np.issubdtype(value.dtype, np.floating) else value.astype(np.float64)
    if "int" in value.dtype.name:
        return f"{real.min():.0f}", f"{real.max():.0f}", "", ""
    nan, infinite = int(np.isnan(real).sum()), int(np.isinf(real).sum())
    if nan == value.size:
        return "", "", str(nan), "0"
    return f"{np.nanmin(real):.6g}", f"{np.nanmax(real):.6g}", str(nan), str(infinite)
