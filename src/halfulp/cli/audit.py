"""``halfulp audit``: how runtimes compute a model's nodes, which faults these have, and how to fix them."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from halfulp.cli import shared
from halfulp.errors import HalfulpError, in_shell
from halfulp.measured import GRADES

_WIDEST = 110  # longer lines are harder to read


def audit(
    model: Annotated[
        Path, Argument(metavar="MODEL", help="An ONNX or OpenVINO (.xml) file, or a folder of them.")
    ],
    place: shared.Place = None,
    targets: Annotated[
        shared.Names,
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
    inputs: shared.Inputs = None,
    *,
    samples: Annotated[
        int,
        Option(
            rich_help_panel="Data", metavar="N", min=0, help="Make up N sets of inputs if there is no data."
        ),
    ] = 0,
    blocklist: Annotated[
        str | None,
        shared.OUTPUT(
            metavar="TOOL",
            help="Instead of the report, print the nodes that overflow in float16, in the syntax in which TOOL keeps"
            " them in float32: trtexec or polygraphy; json for a list of names.",
        ),
    ] = None,
    output: Annotated[shared.File, shared.output_option("Write the report, too.", "FILE.html|.json")] = None,
    html: shared.Html = None,
    json: shared.Json = None,
    force: shared.Force = False,
    fail_on: shared.FailOn = "support",
) -> None:
    """Find Pow and PRelu nodes that a runtime rejects or computes wrongly, or that overflow float16, and print the fix.

    Without data nothing is run. Exit status 1 says that there are findings.

    Example: halfulp audit net.onnx --target onnxruntime -i x=x.npy
    """
    from halfulp.auditing.api import audit as audit_model
    from halfulp.auditing.report import WIDTH, lines

    html, json = shared.placed(place, output, html=html, json=json)
    shared.check_writable(
        json, html, read=[model, *shared.files_of(inputs), *map(Path, targets or [])], force=force
    )
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
    with shared.working() as progress:
        report = audit_model(
            model, targets or None, samples=samples, inputs=arrays, dims=dims, progress=progress
        )
    if blocklist is not None:
        typer.echo(report.blocklist(blocklist))
        return
    if html is not None:
        shared.write_text(html, report.html())
    shared.write_json(json, report.json)
    console = shared.people(json, html)
    width = min(console.width, _WIDEST) if console.is_terminal else WIDTH
    shared.say(console, *lines(report, width=width))
    grave = {None, *GRADES[GRADES.index(fail_on) :]}
    if any(finding.grade in grave for finding in report.findings):
        raise typer.Exit(1)
