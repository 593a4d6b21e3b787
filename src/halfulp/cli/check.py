"""``halfulp check``: compare runtimes with the exact result of every operator version, type and corner."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from halfulp.cli.output import check_writable, console, is_stdout, people, print_rows, say, write_text
from halfulp.errors import HalfulpError, did_you_mean
from halfulp.installed import has_module

if TYPE_CHECKING:
    from rich.progress import TaskID

    from halfulp.conformance.allow import Allowed
    from halfulp.conformance.case import Mode
    from halfulp.conformance.check import CheckReport
    from halfulp.conformance.document import Selection
    from halfulp.conformance.examine import Options
    from halfulp.conformance.targets import TargetSpec


def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="onnxruntime, openvino (from ONNX), openvino-native, torch, jax, cupy, numpy, onnx-reference,"
            " onnx-converter, halfulp; a module with the interface of onnx.backend.base, also one in this folder; or"
            " a function of two arrays, as module:f or file.py:f."
            " All of the first five that are installed if none is given.",
            show_default=False,
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'[NAME=]PROGRAM ...'",
            help="Any other runtime: a program that reads elements on its standard input and writes results; or with"
            " {model}, {inputs} and {outputs} in it, for an ONNX model, an .npz file to read and one to write; repeat"
            " for more.",
        ),
    ] = None,
    library: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE:FUNCTION",
            help="A function of a C library, double f(double, double), or of floats if its name ends in f.",
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the targets, installed or not, and how to install them.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where the targets compute: cpu, or cuda (torch, jax, cupy)."),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="All cases, or so many that a target takes about a minute."),
    ] = False,
    operator: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these: Pow, onnx.Pow, onnx.Pow-15.")
    ] = None,
    version: Annotated[
        list[str] | None, typer.Option(metavar="N", help="Only these versions of operators.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            metavar="T[,T]", help="Only where an input has this type, or the inputs have these two."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only these cases: values, special, edge, hard, broadcast, invalid, reproducibility.",
        ),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only the cases with this id, in which * stands for any text."),
    ] = None,
    no_invalid: Annotated[bool, typer.Option("--no-invalid", help="No models that must be refused.")] = False,
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write all that was found: a document, or a list of them. - is standard output.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write one self-contained page with all of it. - is standard output."
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write the cases with their exact results, for runtimes in any language."
        ),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            metavar="onnx|npy|csv|c",
            help="What --export writes: ONNX backend tests, .npy files, a table of all elements by their bits, or"
            " the same as arrays of C.",
        ),
    ] = "onnx",
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a JUnit report, which CI systems show.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the workers of this Dask scheduler.")
    ] = None,
    allow: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Findings that are known, which don't count.")
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.01, max=86400, help="For a case; who takes longer hangs."),
    ] = 10.0,
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=256, help="Of a target at a time; one per processor if not given."
        ),
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="GRADE",
            help="Findings less grave than this don't count for the exit status: support, reproducibility, zero-signs,"
            " subnormals, exponents, nan, edges, ordinary.",
        ),
    ] = "support",
    ulp: Annotated[
        float,
        typer.Option(metavar="N", min=0, max=1e20, help="How far off a result may be before it is wrong."),
    ] = 4.0,
) -> None:
    """Compare runtimes with the exact result of every operator version, type pair and corner.

    Exit status 1 says that something not in --allow is wrong, refused, accepted, crashed, hung or not reproducible.

    Example: halfulp check onnxruntime openvino --html report.html
    """
    # Imported here, so that `halfulp --help` and the other verbs do not load the onnx package.
    from halfulp.conformance.allow import load as load_allowed
    from halfulp.conformance.case import GROUPS
    from halfulp.conformance.check import selection
    from halfulp.conformance.document import dumps, faults
    from halfulp.conformance.examine import Options, processors
    from halfulp.conformance.export import FORMATS
    from halfulp.conformance.grade import GRADES
    from halfulp.conformance.report import ci, terminal
    from halfulp.conformance.targets import find, find_command, find_library, on_device

    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a module in this folder can be a target
    if no_invalid:
        group = [name for name in _listed(group) or GROUPS if name != "invalid"]
    if list_:
        print_rows(console(), ("target", "installed", "to install it"), list(_listing()), ())
        return
    named = [*map(find, targets or []), *map(find_command, command or []), *map(find_library, library or [])]
    specs = _distinct(named)
    if device is not None:
        specs = [on_device(spec, device) for spec in specs or _having(device)]
    chosen = selection(_listed(operator), _listed(version), types or [], _listed(group), case or [])
    if not specs and (export is None or json is not None or html is not None or junit is not None):
        specs = _installed(chosen)
    allowed = None if allow is None else load_allowed(allow)
    check_writable(json)  # now, not after a long run
    check_writable(html)
    check_writable(junit)
    if fail_on not in GRADES:
        raise HalfulpError(f"no grade {fail_on[:80]}; {did_you_mean(fail_on, GRADES)}")
    if format not in FORMATS:
        raise HalfulpError(f"--format {format[:80]}; {did_you_mean(format, FORMATS)}")
    if is_stdout(export):
        raise HalfulpError("-: --export takes a folder")
    if json is not None and html is not None and json.resolve() == html.resolve():
        raise HalfulpError(f"{json}: --json and --html can't write the same file")
    page = None if html is None else _page()
    mode: Mode = "full" if full else "quick"
    if export is not None:
        said = _export(export, format, mode, chosen, ulp)
        typer.echo(said, err=is_stdout(json) or is_stdout(html))
    if not specs:
        return
    options = Options(ulp, time_limit, threads=processors())
    reports = _check_all(specs, mode, chosen, options, processes, dask, allowed)
    documents = [report.document for report in reports]
    if json is not None:
        write_text(json, dumps(documents))
    if html is not None and page is not None:
        write_text(html, page.render(documents))
    if junit is not None:
        write_text(junit, ci.junit(documents))
    terminal.show(documents, people(json, html, junit), page="the page" if is_stdout(html) else html)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        say(people(json, html, junit), *ci.github(documents))
    for report in reports:
        for entry in report.stale:
            where = f"{allow}, line {entry.line}, {report.document['target']['name']}"
            typer.echo(f"{where}: nothing of this kind was found: {entry}", err=True)
    if any(report.interrupted for report in reports):
        typer.echo("interrupted: this is what was done until then", err=True)
        raise typer.Exit(130)
    if any(faults(document, fail_on) for document in documents):
        raise typer.Exit(1)


def _listing() -> Iterator[tuple[str, str, str]]:
    from halfulp.conformance.targets import BUILT_IN

    for spec in BUILT_IN.values():
        yield spec.name, "yes" if has_module(spec.package) else "", spec.install


def _check_all(
    specs: list[TargetSpec],
    mode: Mode,
    chosen: Selection,
    options: Options,
    processes: int | None,
    dask: str | None,
    allowed: Allowed | None,
) -> list[CheckReport]:
    """Check one target after the other, and show the progress."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    from halfulp.conformance.check import Progress, check_target
    from halfulp.conformance.process import Process

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[found]}", markup=False),
        TimeElapsedColumn(),
    )
    reports = []
    for spec in specs[1:]:
        with Process(spec) as process:
            process.start()  # a target that cannot be loaded fails before the first run
    errors = Console(stderr=True)
    with Bars(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bars:
        for spec in specs:
            task = bars.add_task(spec.name, total=None, found="")

            def show(state: Progress, task: TaskID = task) -> None:
                found = f"{state.cases} cases, {state.faults} faults"
                bars.update(task, completed=state.done, total=state.total, found=found)

            reports.append(
                check_target(
                    spec,
                    mode=mode,
                    selection=chosen,
                    options=options,
                    processes=processes,
                    dask=dask,
                    allowed=allowed,
                    progress=show,
                )
            )
            if reports[-1].interrupted:
                break
    return reports


def _export(folder: Path, format: str, mode: Mode, chosen: Selection, ulp_limit: float) -> str:
    from rich.console import Console

    from halfulp.conformance.cases import cases
    from halfulp.conformance.check import narrowed
    from halfulp.conformance.export import export

    stream = cases(mode, chosen["operators"], chosen["versions"], chosen["types"])
    with Console(stderr=True).status("writing cases"):
        found = export(folder, narrowed(stream, chosen), format=format, ulp_limit=ulp_limit)
    return (
        f"{found.valid} cases, and {found.invalid} that must be refused, written to {folder};"
        f" {found.left_out} that can't be said so left out"
    )


def _installed(chosen: Selection) -> list[TargetSpec]:
    """Return the installed runtimes that accept any of the chosen cases, and print their names.

    Raises:
        HalfulpError: there are none.
    """
    from halfulp.conformance.check import has_cases
    from halfulp.conformance.targets import installed

    specs = [spec for spec in installed() if has_cases(spec, chosen)]
    if not specs:
        raise HalfulpError(
            "nothing to check: no runtime that takes this is installed; install one, such as onnxruntime, or name"
            " a target that halfulp brings, such as numpy, or give --command"
        )
    typer.echo(
        f"no target is named; checking what is installed: {', '.join(s.name for s in specs)}", err=True
    )
    return specs


def _having(device: str) -> list[TargetSpec]:
    """Return the installed runtimes that can compute on a device.

    Raises:
        HalfulpError: there are none.
    """
    from halfulp.conformance.targets import installed

    specs = [spec for spec in installed() if device in spec.devices]
    if not specs:
        raise HalfulpError(f"no runtime that computes on {device} is installed")
    return specs


def _listed(values: list[str] | None) -> list[str]:
    """Return names that were given separately or as lists with commas."""
    return [name.strip() for value in values or [] for name in value.split(",") if name.strip()]


def _distinct(specs: list[TargetSpec]) -> list[TargetSpec]:
    """Number the targets that have equal names, so that reports can distinguish them."""
    seen: Counter[str] = Counter()
    numbered = []
    for spec in specs:
        seen[spec.name] += 1
        count = seen[spec.name]
        numbered.append(spec if count == 1 else replace(spec, name=f"{spec.name} ({count})"))
    return numbered


def _page() -> ModuleType:
    try:
        from halfulp.conformance.report import page
    except ImportError:
        raise HalfulpError("--html needs jinja2: pip install 'halfulp[check]'") from None
    return page
