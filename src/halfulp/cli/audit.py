"""``halfulp audit``: what runtimes make of a model's nodes, what is wrong about them, and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from halfulp.cli.output import check_writable, people, say, write_text

if TYPE_CHECKING:
    from halfulp.auditing.report import AuditReport

_WIDEST = 110  # longer lines are harder to read


def audit(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="An ONNX, OpenVINO (.xml) or DxDispatch (.json) file, or a folder of them."
        ),
    ],
    targets: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="NAME[==VERSION]",
            help="A runtime that shall run the model, such as onnxruntime or openvino; repeat for more."
            " All that load the file and are installed if not given.",
        ),
    ] = None,
    left_open: Annotated[
        bool, typer.Option("--open", help="Say what the documents leave open about the nodes, too.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write all of it there, too. - is standard output."),
    ] = None,
) -> None:
    """Say what runtimes make of a model's Pow and PRelu nodes, which clauses these break, and what to do.

    Nothing is run. Exit status 1 says that there are findings.

    Example: halfulp audit net.onnx --target onnxruntime --target openvino
    """
    # Here, so that the other verbs need not wait for the onnx package.
    from halfulp.auditing.report import WIDTH, lines

    check_writable(output)
    report = _audited(model, targets or None)
    if output is not None:
        write_text(output, json.dumps(report.json(), indent=1) + "\n")
    console = people(output)
    width = min(console.width, _WIDEST) if console.is_terminal else WIDTH
    say(console, *lines(report.targets, report.models, width=width, left_open=left_open))
    if report.findings:
        raise typer.Exit(1)


def _audited(model: Path, targets: list[str] | None) -> AuditReport:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    from halfulp.auditing.api import audit as audit_model

    console = Console(stderr=True)
    if not model.is_dir() or not console.is_terminal:
        return audit_model(model, targets)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed} models"),
        TextColumn("{task.fields[file]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("auditing", total=None, file="")

        def advance(file: str) -> None:
            progress.update(task, advance=1, file=file)

        return audit_model(model, targets, progress=advance)
