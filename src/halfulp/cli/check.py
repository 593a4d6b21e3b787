"""``halfulp check`` and ``halfulp accuracy``: compare runtimes with exact results, of all cases or of many powers."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer
from typer import Argument, Option

from halfulp.cli import shared
from halfulp.cli.shared import OUTPUT, WRITE, FailOn, File, Force, Html, Json, Names
from halfulp.errors import HalfulpError, did_you_mean
from halfulp.installed import has_module
from halfulp.options import CheckOptions, takes

if TYPE_CHECKING:
    from halfulp.conformance.case import Mode
    from halfulp.conformance.check import CheckReport
    from halfulp.conformance.document import Selection
    from halfulp.conformance.targets import TargetSpec

_TARGETS, _CASES, _FAULTS, _POWERS = (
    partial(Option, rich_help_panel=panel) for panel in ("Targets", "Cases", "Faults", "Powers")
)
Targets = Annotated[
    Names,
    Argument(
        metavar="TARGET",
        help="onnxruntime, openvino (from ONNX), openvino-native, torch, jax, cupy, numpy, onnx-reference, halfulp, and"
        " more (check --list); onnxruntime:cuda is a provider, torch:cuda a device; a module with the interface of"
        " onnx.backend.base, also one in this folder; or a function of two arrays, as module:f or file.py:f."
        " Without a name, check takes the first six of these, if installed.",
        show_default=False,
    ),
]
Commands = Annotated[
    Names,
    _TARGETS(
        metavar="'[NAME=]PROGRAM ...'",
        help="Any other runtime: a program that reads elements on its standard input and writes results; or with"
        " {model}, {inputs} and {outputs} in it, for an ONNX model, an .npz file to read and one to write; repeat"
        " for more.",
    ),
]
Libraries = Annotated[
    Names,
    _TARGETS(
        metavar="[NAME=]FILE:FUNCTION",
        help="A function of a C library, double f(double, double), or of floats if its name ends in f.",
    ),
]


@takes(CheckOptions, Option)
def check(
    targets: Targets = None,
    command: Commands = None,
    library: Libraries = None,
    list_: Annotated[
        bool, _TARGETS("--list", help="List the targets, installed or not, and how to install them.")
    ] = False,
    full: Annotated[
        bool, _CASES("--full/--quick", help="All cases, or as many as a target computes in a minute.")
    ] = False,
    *,
    allow: Annotated[
        File, _FAULTS(help="Findings that are known, which don't count.", metavar="FILE")
    ] = None,
    fail_on: FailOn = "support",
    output: Annotated[File, WRITE(help="Write the report.", metavar="FILE.json|.html|.xml")] = None,
    json: Json = None,
    html: Html = None,
    junit: Annotated[File, OUTPUT(help="Write a JUnit report, which CI systems show.")] = None,
    export: Annotated[
        File,
        OUTPUT(
            metavar="FOLDER",
            help="Write the cases with their exact results for other programs, and a program that runs them.",
        ),
    ] = None,
    format: Annotated[
        str,
        OUTPUT(
            metavar="onnx|csv|c",
            help="The form of --export: ONNX backend tests, a table of all elements by their bits, or the same as"
            " arrays of C.",
        ),
    ] = "onnx",
    force: Force = False,
    **options: Unpack[CheckOptions],
) -> None:
    """Compare runtimes with the exact result of every operator version, type pair and corner.

    Exit status 1 says that something not in --allow is wrong, refused, accepted, crashed, hung or not reproducible.

    Example: halfulp check onnxruntime openvino --html report.html
    """
    from halfulp.conformance import report
    from halfulp.conformance.check import processors, selection
    from halfulp.conformance.document import dumps, load_allowed
    from halfulp.conformance.export import FORMATS
    from halfulp.conformance.targets import BUILT_IN

    if list_:
        rows = [(s.name, "yes" if has_module(s.package) else "", s.install) for s in BUILT_IN.values()]
        shared.print_rows(shared.console(), ("target", "installed", "to install it"), rows, ())
        return
    specs = find_all(targets, command, library)
    operators, groups = (
        [name.strip() for value in options[key] for name in value.split(",") if name.strip()]
        for key in ("operators", "groups")
    )
    chosen = selection(operators, (), options["types"], groups, options["cases"])
    json, html, junit = written = shared.placed(None, output, json=json, html=html, xml=junit)
    if not specs and (export is None or any(written)):
        specs = _installed(chosen)
    allowed = load_allowed(allow)
    read = [allow, *(spec.file for spec in specs)]
    shared.check_writable(*written, read=read, force=force)  # now, not after a long run
    if format not in FORMATS:
        raise HalfulpError(f"--format {format[:80]}; {did_you_mean(format, FORMATS)}")
    if shared.is_stdout(export):
        raise HalfulpError("-: --export takes a folder")
    if html is not None and not has_module("jinja2"):
        raise HalfulpError("pages need jinja2: pip install 'halfulp[check]'")
    mode: Mode = "full" if full else "quick"
    if export is not None:
        summary = _export(export, format, mode, chosen, options["ulp_limit"])
        typer.echo(summary, err=any(map(shared.is_stdout, written)))
    if not specs:
        return
    limits = {name: options[name] for name in ("processes", "ulp_limit", "time_limit")}
    reports = _check_all(specs, mode=mode, selection=chosen, allowed=allowed, threads=processors(), **limits)
    documents = [each.document for each in reports]
    junit_report = partial(report.junit, least=fail_on, allowed=allowed)
    for file, text_of in ((html, report.render), (json, dumps), (junit, junit_report)):
        if file is not None:
            shared.write_text(file, text_of(documents))
    shown = "the page" if shared.is_stdout(html) else html
    report.show(documents, shared.console(*written), page=shown, least=fail_on)
    _end(reports, allow, fail_on)


def _end(reports: list[CheckReport], allow: Path | None, fail_on: str) -> None:
    """Name the entries of the allow list that allow nothing, and exit with the status of the findings."""
    from halfulp.conformance.document import all_faults, faults

    documents = [report.document for report in reports]
    found = [(each["target"]["name"], fault) for each in documents for fault in all_faults(each)]
    for report in reports:
        name = report.document["target"]["name"]
        for entry in report.stale:
            if not any(entry.about(*fault) for fault in found):  # it may be about a finding of another target
                line = f"{allow}, line {entry.line}, {name}: nothing of this kind was found: {entry}"
                shared.say(shared.console(stderr=True), line)
    if reports[-1].interrupted:  # it ends the run
        typer.echo("interrupted: these are the results so far", err=True)
        raise typer.Exit(130)
    if any(map(partial(faults, least=fail_on), documents)):
        raise typer.Exit(1)


def find_all(targets: Names, commands: Names, libraries: Names) -> list[TargetSpec]:
    """Return the named targets. The second one of a name is numbered, so that reports distinguish them."""
    from halfulp.conformance.targets import find, find_command, find_library

    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a module in this folder can be a target
    finders = ((find, targets), (find_command, commands), (find_library, libraries))
    found = [finder(name) for finder, names in finders for name in names or []]
    names = [spec.name for spec in found]
    numbered = ((spec, names[: place + 1].count(spec.name)) for place, spec in enumerate(found))
    return [replace(spec, name=f"{spec.name} ({nth})") if nth > 1 else spec for spec, nth in numbered]


def _check_all(specs: list[TargetSpec], **arguments: Any) -> list[CheckReport]:
    from halfulp.conformance.check import Progress, check_target
    from halfulp.conformance.process import Process

    reports = []
    for spec in specs[1:]:
        with Process(spec) as process:
            process.start()  # a target that cannot be loaded fails before the first run
    with shared.working() as tell:
        for spec in specs:

            def show(state: Progress, name: str = spec.name) -> None:
                rows = f"{state.done} of {state.total} operator versions and types"
                tell(f"{name}: {rows}, {state.cases} cases, {state.faults} faults")

            reports.append(check_target(spec, **arguments, progress=show))
            if reports[-1].interrupted:
                break
    return reports


def _export(folder: Path, format: str, mode: Mode, chosen: Selection, ulp_limit: float) -> str:
    from halfulp.conformance.cases import cases
    from halfulp.conformance.check import narrowed
    from halfulp.conformance.export import export

    stream = cases(mode, chosen["operators"], chosen["versions"], chosen["types"])
    with shared.working() as tell:
        tell("writing cases")
        written = export(folder, narrowed(stream, chosen), format=format, ulp_limit=ulp_limit)
    return (
        f"{written.valid} cases, and {written.invalid} that must be refused, written to {folder};"
        f" {written.left_out} that this form cannot express left out"
    )


def _installed(chosen: Selection) -> list[TargetSpec]:
    """Return the installed runtimes that accept any of the chosen cases, and print their names."""
    from halfulp.conformance.check import rows_of
    from halfulp.conformance.targets import BUILT_IN, DEFAULT

    installed = [BUILT_IN[name] for name in DEFAULT if has_module(BUILT_IN[name].package)]
    specs = [spec for spec in installed if any(rows_of(spec, chosen))]
    if not specs:
        raise HalfulpError(
            "nothing to check: no runtime that takes this is installed; install one, such as onnxruntime, or name"
            " a target that halfulp brings, such as numpy, or give --command"
        )
    names = ", ".join(spec.name for spec in specs)
    typer.echo(f"no target is named; checking the installed runtimes: {names}", err=True)
    return specs


def accuracy(
    targets: Targets = None,
    command: Commands = None,
    library: Libraries = None,
    types: Annotated[
        str, _POWERS(metavar="T,T", help="Floating types, of bases and exponents alike.")
    ] = "float64,float32,float16,bfloat16",
    count: Annotated[int, _POWERS(metavar="N", min=64, max=1 << 24, help="Elements of a range.")] = 65536,
    rounds: Annotated[
        int, _POWERS(metavar="N", min=0, max=100_000, help="Steps of the search for the worst error.")
    ] = 12,
    exhaustive: Annotated[
        bool, _POWERS("--exhaustive", help="Try all 2^32 pairs of a 16-bit type, too: an hour or a night.")
    ] = False,
    output: Annotated[File, WRITE(help="Write the report.", metavar="FILE.json")] = None,
    json: Json = None,
    force: Force = False,
) -> None:
    """Measure how exact runtimes' powers are: misrounded shares, worst errors, special values, stable bits.

    Example: halfulp accuracy torch numpy libm --types float32
    """
    from halfulp.conformance import accuracy as measuring
    from halfulp.conformance.check import Examiner, processors
    from halfulp.types import element_type

    specs = find_all(targets, command, library)
    if not specs:
        raise HalfulpError("no target is named; halfulp check --list lists them")
    names = [element_type(name.strip()).name for name in types.split(",")]
    if not has_module("gmpy2"):
        raise HalfulpError("accuracy needs gmpy2: pip install 'halfulp[check]'")
    (json,) = shared.placed(None, output, json=json)
    shared.check_writable(json, read=[spec.file for spec in specs], force=force)
    documents, without = list[dict[str, Any]](), list[str]()
    with shared.working() as progress:
        for spec in specs:
            with Examiner(spec, time_limit=600, threads=processors()) as examiner:
                versions = examiner.versions
                measured = measuring.measure(
                    examiner, names, count=count, rounds=rounds, exhaustive=exhaustive, tell=progress
                )
            if measured:
                documents.append(measuring.document(spec.name, versions, measured))
            else:
                without.append(spec.name)
            if is_interrupted := not all(of_type.is_complete for of_type in measured):
                break
    if documents:
        shared.write_json(json, lambda: documents)
        headers, *rows = measuring.table(documents)
        numbers = [header for header in headers if "misrounded" in header] + ["worst ulp"]
        shared.print_rows(shared.console(json), headers, rows, numbers)
        shared.say(shared.console(json), *measuring.worst_pairs(documents))
    if is_interrupted:
        typer.echo("interrupted: of all pairs, those before are measured", err=True)
        raise typer.Exit(130)
    if without:
        raise HalfulpError(
            f"{', '.join(without)}: no powers of {', '.join(names)}, and accuracy measures powers;"
            " halfulp check --json FILE has the max_ulp of a PRelu"
        )
