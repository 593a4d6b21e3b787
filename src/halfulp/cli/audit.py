"""``halfulp audit``: how runtimes compute a model's nodes, which faults these have, and how to fix them."""

from pathlib import Path
from typing import Annotated, Unpack

import typer
from typer import Argument, Option

from halfulp.cli.inputs import (
    OUTPUT,
    FailOn,
    File,
    Force,
    Html,
    Inputs,
    Json,
    Names,
    Place,
    check_grade,
    declared_inputs,
    files_of,
    output_option,
    parted,
)
from halfulp.cli.inputs import samples as samples_of
from halfulp.cli.output import check_writable, people, placed, say, working, write_json, write_text
from halfulp.errors import HalfulpError, in_shell
from halfulp.measured import GRADES
from halfulp.options import AuditOptions, takes

_WIDEST = 110  # longer lines are harder to read


@takes(AuditOptions, Option)
def audit(
    model: Annotated[
        Path, Argument(metavar="MODEL", help="An ONNX or OpenVINO (.xml) file, or a folder of them.")
    ],
    place: Place = None,
    targets: Annotated[
        Names,
        Option(
            "--target",
            "-t",
            rich_help_panel="Runtimes",
            metavar="NAME[==VERSION]|FILE.json",
            help="A runtime that will run the model, such as onnxruntime or openvino, or a document of halfulp check"
            " --json about one; repeat for more."
            " By default all installed runtimes that load the file.",
        ),
    ] = None,
    inputs: Inputs = None,
    *,
    blocklist: Annotated[
        str | None,
        OUTPUT(
            metavar="TOOL",
            help="Instead of the report, print the nodes that overflow in float16, in the syntax in which TOOL keeps"
            " them in float32: trtexec or polygraphy; json for a list of names.",
        ),
    ] = None,
    output: Annotated[File, output_option("Write the report, too.", "FILE.html|.json")] = None,
    html: Html = None,
    json: Json = None,
    force: Force = False,
    fail_on: FailOn = "support",
    **options: Unpack[AuditOptions],
) -> None:
    """Find Pow and PRelu nodes that a runtime rejects or computes wrongly, or that overflow float16, and print the fix.

    Without data nothing is run. Exit status 1 says that there are findings.

    Example: halfulp audit net.onnx --target onnxruntime -i x=x.npy
    """
    from halfulp.auditing.api import audit as audit_model
    from halfulp.auditing.report import WIDTH, lines

    html, json = placed(place, output, html=html, json=json)
    check_writable(json, html, read=[model, *files_of(inputs), *map(Path, targets or [])], force=force)
    check_grade(fail_on)
    if blocklist is not None:
        has_data = bool(inputs or options["samples"])
        _check_blocklist(model, blocklist, has_data=has_data, is_written=bool(json or html))
    if inputs and model.is_dir():
        raise HalfulpError(f"{model}: inputs are for one model, and this is a folder")
    files, dims = parted(inputs)
    if dims and not options["samples"]:
        message = "sizes of dims are for inputs that are made up"
        raise HalfulpError(message, expected="--samples N", got=", ".join(dims))
    arrays = samples_of(declared_inputs(model), files) if files else None
    with working() as progress:
        report = audit_model(model, targets or None, inputs=arrays, dims=dims, progress=progress, **options)
    if blocklist is not None:
        typer.echo(report.blocklist(blocklist))
        return
    if html is not None:
        write_text(html, report.html())
    write_json(json, report.json)
    console = people(json, html)
    width = min(console.width, _WIDEST) if console.is_terminal else WIDTH
    say(console, *lines(report, width=width))
    grave = {None, *GRADES[GRADES.index(fail_on) :]}
    if any(finding.grade in grave for finding in report.findings):
        raise typer.Exit(1)


def _check_blocklist(model: Path, tool: str, *, has_data: bool, is_written: bool) -> None:
    """Refuse --blocklist without data, and beside the report that it replaces."""
    if not has_data:
        way_out = f"halfulp audit {in_shell(model)} --samples 3 --blocklist {in_shell(tool)}"
        expected = f"--input NAME=FILE, or made-up data: {way_out}"
        raise HalfulpError("--blocklist is about data", expected=expected)
    if is_written:
        raise HalfulpError("--blocklist prints a list instead of the report: leave out -o, --json and --html")
