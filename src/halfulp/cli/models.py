"""``halfulp audit``, ``repair``, ``convert``, ``run`` and ``bench``: what is done with a model."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

import numpy as np
import typer
from typer import Argument, Option

from halfulp.cli import shared
from halfulp.cli.shared import OUTPUT, WRITE, FailOn, File, Force, Html, Inputs, Json, Names, Place
from halfulp.errors import HalfulpError, command, count_of, in_shell, printable
from halfulp.installed import has_module
from halfulp.measured import GRADES
from halfulp.models.files import format_of, write_npz
from halfulp.models.graph import Array, listed
from halfulp.models.run.report import NodeRun, RunReport, show
from halfulp.operators import thread_count
from halfulp.options import ConvertOptions, takes
from halfulp.types import type_name

if TYPE_CHECKING:
    from halfulp.conversion.mending import Slopes
    from halfulp.conversion.repair import Repair

_WIDEST = 110  # longer lines are harder to read
_MOST_ROWS = 60
_NUMBERS = ["least", "greatest", "NaN", "inf"]  # the columns of an array's range
_RUNTIMES, _DATA, _CHANGES, _VERIFICATION, _ENGINE, _MEASUREMENT = (
    partial(Option, rich_help_panel=panel)
    for panel in ("Runtimes", "Data", "Changes", "Verification", "Engine", "Measurement")
)
_In = Annotated[Path, Argument(metavar="IN", help="An ONNX file.")]


# --- audit ----------------------------------------------------------------------------------------


def audit(
    model: Annotated[
        Path, Argument(metavar="MODEL", help="An ONNX or OpenVINO (.xml) file, or a folder of them.")
    ],
    place: Place = None,
    targets: Annotated[
        Names,
        _RUNTIMES(
            "--target",
            "-t",
            metavar="NAME[==VERSION]|FILE.json",
            help="A runtime that will run the model, such as onnxruntime or openvino, or a document of halfulp check"
            " --json about one; repeat for more. By default all installed runtimes that load the file.",
        ),
    ] = None,
    inputs: Inputs = None,
    *,
    samples: Annotated[
        int, _DATA(metavar="N", min=0, help="Make up N sets of inputs if there is no data.")
    ] = 0,
    blocklist: Annotated[
        str | None,
        OUTPUT(
            metavar="TOOL",
            help="Instead of the report, print the nodes that overflow in float16, in the syntax in which TOOL keeps"
            " them in float32: trtexec or polygraphy; json for a list of names.",
        ),
    ] = None,
    output: Annotated[File, WRITE(help="Write the report, too.", metavar="FILE.html|.json")] = None,
    html: Html = None,
    json: Json = None,
    force: Force = False,
    fail_on: FailOn = "support",
) -> None:
    """Find Pow and PRelu nodes that a runtime rejects or computes wrongly, or that overflow float16, and print the fix.

    Without data nothing is run. Exit status 1 says that there are findings.

    Example: halfulp audit net.onnx --target onnxruntime -i x=x.npy
    """
    from halfulp.auditing.api import audit as audit_model
    from halfulp.auditing.report import WIDTH, text

    html, json = shared.placed(place, output, html=html, json=json)
    read = [model, *map(Path, targets or [])]
    shared.check_writable(json, html, read=read, inputs=inputs, force=force)
    if blocklist is not None and not (inputs or samples):
        way_out = f"halfulp audit {in_shell(model)} --samples 3 --blocklist {in_shell(blocklist)}"
        expected = f"--input NAME=FILE, or made-up data: {way_out}"
        raise HalfulpError("--blocklist is about data", expected=expected)
    if blocklist is not None and (json or html):
        raise HalfulpError("--blocklist prints a list instead of the report: leave out -o, --json and --html")
    if inputs and model.is_dir():
        raise HalfulpError(f"{model}: inputs are for one model, and this is a folder")
    files, dims = shared.parted(inputs)
    if dims and not samples:
        message = "sizes of dims are for inputs that are made up"
        raise HalfulpError(message, expected="--samples N", got=", ".join(dims))
    arrays = shared.samples(shared.declared_inputs(model), files) if files else None
    with shared.working() as tell:
        report = audit_model(model, targets or None, samples=samples, inputs=arrays, dims=dims, progress=tell)
    if blocklist is not None:
        typer.echo(report.blocklist(blocklist))
        return
    if html is not None:
        shared.write_text(html, report.html())
    shared.write_json(json, report.json)
    console = shared.console(json, html)
    width = min(console.width, _WIDEST) if console.is_terminal else WIDTH
    shared.say(console, text(report, width))
    grave = {None, *GRADES[GRADES.index(fail_on) :]}
    if any(finding.grade in grave for finding in report.findings):
        raise typer.Exit(1)


# --- convert and repair ---------------------------------------------------------------------------


@takes(ConvertOptions, Option)
def convert(
    model: _In,
    place: Place = None,
    *,
    inputs: Inputs = None,
    output: Annotated[
        File, WRITE(help="Where to write: ONNX, or OpenVINO's IR where it ends with .xml.")
    ] = None,
    force: Force = False,
    **options: Unpack[ConvertOptions],
) -> None:
    """Convert a model, and list the change to each node.

    Exit status 1 says that the outputs of the two models differ by more than a change announces, or could not be
    compared; OUT is written all the same.

    Example: halfulp convert net.onnx new.onnx --opset 15 --verify
    """
    from halfulp.conversion import convert as convert_model

    (output,) = shared.placed(place, output)
    if output is None:
        raise HalfulpError(f"{model}: no output is named", expected="-o FILE, or a second file")
    shared.check_writable(binary=output, read=[model], inputs=inputs, force=force)
    arrays, dims = shared.to_verify(model, inputs, verify=options["verify"])
    with shared.working() as progress:
        conversion = convert_model(model, output, dims=dims, inputs=arrays, progress=progress, **options)
    for line in (*map(str, conversion.changes), f"{conversion.summary}; written to {output}"):
        typer.echo(printable(line, most=None))
    if (verification := conversion.verification) is not None:
        typer.echo(str(verification))
        if not verification.same:
            raise typer.Exit(1)


def repair(
    model: _In,
    place: Place = None,
    slopes: Annotated[
        Names,
        _CHANGES(
            metavar="[NODE=]DIM",
            help="The dim of X that a slope goes along where that is open: channel, last or a number;"
            " repeat for single nodes.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        _VERIFICATION(
            "--verify",
            help="Run the repaired model, and the broken one in OpenVINO if that is installed and takes it.",
        ),
    ] = False,
    inputs: Inputs = None,
    output: Annotated[File, WRITE(help="Where to write. Without it the repairs are only shown.")] = None,
    json: Json = None,
    force: Force = False,
) -> None:
    """Fix invalid Pow and PRelu nodes, and list each fix.

    Exit status 0: the model is valid, repaired or untouched. 1: something is left, or the verification found a
    difference; OUT is written all the same. 2: nothing could be written.

    Example: halfulp repair broken.onnx repaired.onnx --verify
    """
    from halfulp.conversion.repair import repair as repair_model

    (output,) = shared.placed(place, output)
    shared.check_writable(json, binary=output, read=[model], inputs=inputs, force=force)
    arrays, dims = shared.to_verify(model, inputs, verify=verify)
    choices = _slopes(slopes or [])
    with shared.working() as progress:
        repaired = repair_model(
            model, output, slopes=choices, verify=verify, dims=dims, inputs=arrays, progress=progress
        )
    shared.write_json(json, lambda: _repair_document(model, output, repaired))
    shared.say(shared.console(json), *_repair_lines(model, output, repaired, slopes or []))
    if not repaired.valid or (repaired.verification is not None and not repaired.verification.same):
        raise typer.Exit(1)


def _slopes(choices: list[str]) -> Slopes | None:
    """Return the choices of ``--slopes``: one for all nodes, or choices for single nodes by name."""
    of_node: dict[str, str | int] = {}
    for choice in choices:
        name, equals, dim = choice.rpartition("=")
        where = int(dim) if dim.removeprefix("-").isdecimal() and len(dim) < 4 else dim
        if where not in ("channel", "last") and not isinstance(where, int):
            form = "--slopes must be DIM or NODE=DIM, DIM being channel, last or a number"
            raise HalfulpError(form, got=choice)
        if not equals and len(choices) > 1:
            rule = "--slopes for all nodes stands alone; name the nodes: --slopes NODE=DIM"
            raise HalfulpError(rule, got=choice)
        if not equals:
            return where
        of_node[name] = where
    return of_node or None


def _repair_lines(model: Path, output: Path | None, repaired: Repair, slopes: list[str]) -> list[str]:
    if not repaired.changes:
        text = "nothing to repair" if repaired.valid else "no node could be repaired"
        if not repaired.left:
            text += f": the model is valid; halfulp audit {in_shell(model)} says what runtimes do with it"
        last = text if output is None else f"{text}; written unchanged to {output}"
    elif output is None:
        chosen = "".join(f" --slopes {shlex.quote(choice)}" for choice in slopes)
        last = f"{repaired.summary}; to write it: {command(str(model), 'repair')}{chosen}"
    else:
        last = f"{repaired.summary}; written to {output}"
    verification = "" if repaired.verification is None else str(repaired.verification)
    return [*repaired.lines(), last, *verification.splitlines()]


def _repair_document(model: Path, output: Path | None, repair: Repair) -> dict[str, Any]:
    verification = repair.verification
    return {
        "schema": "halfulp.repair/1",
        "file": str(model),
        "written": None if output is None else str(output),
        "valid": repair.valid,
        "changes": [{"node": it.node, "what": it.what, "differs": it.differs} for it in repair.changes],
        "left": [{"node": it.node or it.file, "why": it.text, "valid": it.valid} for it in repair.left],
        "verification": verification and {"same": verification.same, "text": str(verification)},
    }


# --- run ------------------------------------------------------------------------------------------


def run(
    model: Annotated[Path, Argument(metavar="MODEL", help="An ONNX or OpenVINO (.xml) file.")],
    place: Place = None,
    inputs: Inputs = None,
    output: Annotated[
        File,
        WRITE(
            help="Write the outputs. NumPy has no name for bfloat16, float8, float4 and int4: they"
            " are stored as bytes; read them with array.view(ml_dtypes.bfloat16).",
            metavar="OUT.npz",
        ),
    ] = None,
    force: Force = False,
    engine: Annotated[
        Literal["auto", "onnxruntime", "halfulp"],
        _ENGINE(
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
    shared.check_writable(binary=output, read=[model], inputs=inputs, force=force)
    if output is not None and output.suffix != ".npz":
        raise HalfulpError(f"{output}: outputs are written as arrays of NumPy", expected="a name in .npz")
    loaded = opened(model, engine)
    files, dims = shared.parted(inputs)
    fed_arrays: dict[str, Array] | Literal["random"] = shared.fed(loaded, files) if files else "random"
    result = evaluate(loaded, fed_arrays, engine, dims=dims, with_report=True)
    outputs, report = result.outputs, result.report
    assert report is not None
    if output is not None:
        flat = dict[str, Any]()  # where a sequence becomes name.0, name.1 and so on
        for name, value in outputs.items():
            is_list = isinstance(value, list)
            flat |= {f"{name}.{i}": each for i, each in enumerate(value)} if is_list else {name: value}
        write_npz(output, {name: value for name, value in flat.items() if isinstance(value, np.ndarray)})
    to = shared.console()
    shared.say(to, *filter(None, (result.engine, result.made_up)))
    headers = ["node", "operator", "inputs", "outputs", "ms", "share", "evaluated by"]
    shared.print_rows(to, headers, _run_nodes(report), ["ms", "share"])
    shared.say(to, _engines(report))
    named = {"input" if files else "input (made up)": outputs.inputs, "output": outputs}
    for title in filter(named.get, named):
        shared.print_rows(to, [title, "type", *_NUMBERS], rows_of(named[title]), _NUMBERS)
    shared.say(to, *result.lost)
    if result.lost and isinstance(loaded, Onnx):
        words = " ".join(f"-i {shlex.quote(file)}" for file in files) or "--samples 1"
        audit_it = f"halfulp audit {in_shell(model)} {words}"
        shared.say(to, f"{audit_it} says where the infinities go, and what helps")
    shared.say(to, *(sentence(name, reason) for name, reason in outputs.vacuous.items()))
    if outputs.vacuous and not files:
        shared.say(to, "-i NAME=FILE gives it other inputs")
    if output is not None:
        shared.say(to, f"written to {output}")


def _run_nodes(report: RunReport) -> list[list[str]]:
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


def _engines(report: RunReport) -> str:
    """Return a line with the part of the run that halfulp evaluated."""
    engines = [row.engine for row in report.nodes]
    own = engines.count("halfulp")
    rest = len(engines) - own
    runtimes = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
    other = next(filter(None, map(runtimes.get, engines)), "the onnx package's reference evaluator")
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


# --- bench ----------------------------------------------------------------------------------------


def bench(
    model: Annotated[
        File,
        Argument(
            metavar="[MODEL]",
            help="A network, an ONNX file: measured in ONNX Runtime, with its own Pow and PRelu and with halfulp's."
            " Without it, arrays are.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        _MEASUREMENT(
            min=1, max=256, metavar="N", help="For every library; all that this process may use if not given."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        _MEASUREMENT(
            min=0,
            max=600,
            metavar="S",
            help="How long to measure each row, or a network in all, beside preparing it.",
        ),
    ] = None,
    inputs: Inputs = None,
    output: Annotated[File, WRITE(help="Write the measurements of a network.", metavar="FILE.json")] = None,
    json: Json = None,
    force: Force = False,
) -> None:
    """Measure a network in ONNX Runtime with and without halfulp; without a model, halfulp beside NumPy and torch.

    Example: halfulp bench net.onnx -i N=16
    """
    (json,) = shared.placed(None, output, json=json)
    if model is None and (inputs or json):
        raise HalfulpError("--input, --json and -o are for a network", expected="halfulp bench MODEL")
    from halfulp.installed import environment

    threads = threads or thread_count()
    os.environ.update(environment(threads))  # before the libraries are loaded
    if model is None:
        _bench_arrays(threads, 0.5 if seconds is None else seconds)
    else:
        shared.check_writable(json, read=[model], inputs=inputs, force=force)
        _bench_network(model, threads, 5.0 if seconds is None else seconds, inputs, json)


def _bench_arrays(threads: int, seconds: float) -> None:
    from halfulp.benchmark.comparison import ROWS, SIZE, measure
    from halfulp.installed import versions

    cells = dict[str, dict[str, str]]()
    with shared.working() as progress:
        for row in ROWS:
            progress(f"measuring {row}")
            cells[row] = measure(row, threads, seconds)
    names = [*cells[ROWS[0]]]
    installed = versions(*names)
    headers = ["arrays", *(f"{name}\n{installed.get(name, '')}" for name in names)]
    _bench_table(headers, [[row, *of_row.values()] for row, of_row in cells.items()])
    shared.say(
        shared.console(),
        f"Nanoseconds per element on {count_of(threads, 'thread')} ({SIZE:,} elements): the median, half the"
        " distance of the quartiles;\nthe share of results that are not correctly rounded, compared with halfulp's,"
        " and how many values off the farthest is.",
    )


def _bench_table(headers: list[str], rows: list[list[str]]) -> None:
    """Print a table; a semicolon starts a new line in a cell."""
    cells = [[cell.replace("; ", "\n") for cell in row] for row in rows]
    shared.print_rows(shared.console(), headers, cells, ())


def _bench_network(path: Path, threads: int, seconds: float, inputs: Names, output: Path | None) -> None:
    from halfulp.benchmark import comparison as measuring
    from halfulp.conversion.verify import runs
    from halfulp.models.run.inputs import fit

    fact = "networks are measured in ONNX Runtime"
    if format_of(path) != "onnx":
        raise HalfulpError(f"{path}: {fact}", expected="the .onnx file that it was made from")
    if not has_module("onnxruntime"):
        install = "pip install 'halfulp[onnxruntime]'"
        raise HalfulpError(f"{path}: {fact}, which is not installed", expected=install)
    files, dims = shared.parted(inputs)
    with measuring.light(path) as model, shared.working() as progress:
        nodes = len(measuring.nodes_of(model))
        if not nodes:
            raise HalfulpError(f"{path}: has no Pow and no PRelu, the operators that halfulp would run")
        fitted = None if files else fit(model, runs(model)[1][0], dims=dims)[0]
        values = shared.fed(model, files) if fitted is None else fitted.inputs(model)
        row = measuring.compare(model, values, threads, seconds, progress)
    document = {"model": str(path), "threads": threads, "runtimes": [measuring.document(row)]}
    shared.write_json(output, lambda: document)
    if shared.is_stdout(output):
        return
    to = shared.console()
    shared.say(to, *filter(None, [str(fitted or "")]))
    _bench_table(["network", "a run", "its Pow and PRelu", "their results"], measuring.report(row, nodes))
    shared.say(
        to,
        *measuring.sentences(row),
        f"\nThe median of runs in turns, on {count_of(threads, 'thread')}, and half the distance of the"
        " quartiles; the Pow and PRelu nodes' time\nand their share of all nodes', by the runtime's own profile;"
        " the share of their results that are not correctly\nrounded, given their operands, and how many values off"
        " the farthest is.",
    )
