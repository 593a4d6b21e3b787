"""The options that verbs share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

Names = list[str] | None
Inputs = Annotated[
    Names,
    Option(
        "--input",
        "-i",
        rich_help_panel="Data",
        metavar="[NAME=]FILE|DIM=N",
        help="An input, from a .npy, .npz or .pb (TensorProto) file; repeat for more. FILE.npz alone feeds every input"
        " it has an entry for; to audit, FOLDER alone has such a file for each sample. Without files inputs are made"
        " up, and DIM=N, such as batch=4, is the size of a symbolic dim in them; a dim without a name is INPUT[AXIS].",
    ),
]
FailOn = Annotated[
    str,
    Option(
        metavar="GRADE",
        rich_help_panel="Faults",
        help="Ignore less grave faults of runtimes in the exit status. The grades, from the least grave: support,"
        " reproducibility, zero-signs, subnormals, exponents, nan, edges, ordinary.",
    ),
]
OUTPUT = partial(Option, rich_help_panel="Output", metavar="FILE")
File = Path | None
Place = Annotated[File, Argument(metavar="[OUT]", help="The same as -o.", show_default=False)]
Html = Annotated[File, OUTPUT(help="Write the report as a page.")]
Json = Annotated[File, OUTPUT(help="Write the report as JSON. - is standard output.")]
Force = Annotated[bool, OUTPUT("--force", metavar="", help="Write even over a file that is read.")]


def output_option(help: str, metavar: str = "FILE") -> Any:
    """Return the option for the output of a verb."""
    return OUTPUT("--output", "-o", metavar=metavar, help=help)
