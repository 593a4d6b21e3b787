"""What verbs share: options, the arrays and sizes of dims that ``--input`` names, and outputs.

An output is a file, written completely or not at all; text also goes to standard output (``-``).
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from typer import Argument, Option

from halfulp.errors import HalfulpError, HalfulpWarning, did_you_mean, printable
from halfulp.measured import GRADES
from halfulp.models.files import format_of, read_npy, read_npz, replacing, viewed
from halfulp.types import FLOATS

if TYPE_CHECKING:
    from halfulp.models.graph import Array, Model, Value

_STDOUT = Path("-")
_PIPED_WIDTH = 160
_UNBOUNDED = 100_000  # columns, to measure a table in

Cells = Sequence[str]
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


def _grade(grade: str) -> str:
    if grade not in GRADES:
        raise HalfulpError(f"no grade {grade[:80]}; {did_you_mean(grade, GRADES)}")
    return grade


FailOn = Annotated[
    str,
    Option(
        metavar="GRADE",
        rich_help_panel="Faults",
        callback=_grade,
        help="Ignore less grave faults of runtimes in the exit status. The grades, from the least grave: support,"
        " reproducibility, zero-signs, subnormals, exponents, nan, edges, ordinary.",
    ),
]
OUTPUT = partial(Option, rich_help_panel="Output", metavar="FILE")
WRITE = partial(OUTPUT, "--output", "-o")
File = Path | None
Place = Annotated[File, Argument(metavar="[OUT]", help="The same as -o.", show_default=False)]
Html = Annotated[File, OUTPUT(help="Write the report as a page.")]
Json = Annotated[File, OUTPUT(help="Write the report as JSON. - is standard output.")]
Force = Annotated[bool, OUTPUT("--force", metavar="", help="Write even over a file that is read.")]


def parted(arguments: Names) -> tuple[list[str], dict[str, int]]:
    """Return the values of ``--input`` that name files, and the sizes of dims. (A number has no suffix of a file.)"""
    files: list[str] = []
    sizes: dict[str, int] = {}
    for argument in arguments or []:
        name, _, size = argument.rpartition("=")
        if name and size.isascii() and size.isdigit() and len(size) < 19:
            sizes[name] = int(size)
        else:
            files.append(argument)
    if files and sizes:
        message = "sizes of dims are for inputs that are made up, and files are given"
        raise HalfulpError(message, got=", ".join(sizes))
    return files, sizes


def fed(model: Model, arguments: list[str]) -> dict[str, Array]:
    """Return the arrays that ``--input`` names, by input, and warn of those that were rounded."""
    from halfulp.models.run.inputs import needed

    declared = {alias: value for value in model.graph.inputs for alias in value.aliases}
    declared |= {value.name: value for value in model.graph.inputs}
    values: dict[str, Array] = {}
    for argument in arguments:
        for entry, array in _entries(argument, model, declared).items():
            if entry in values:
                raise HalfulpError(f"input {entry!r} is given twice")
            values[entry] = _rounded(viewed(array, _dtype(declared[entry]), argument), declared[entry])
    for value in needed(model):
        if not values.keys() & {value.name, *value.aliases}:
            raise HalfulpError(
                f"{model.file}: no --input is given for its input {value.name!r}",
                expected=f"{value}, such as -i {value.name}=FILE.npy; without any --input all are made up",
            )
    return values


def _entries(argument: str, model: Model, declared: Mapping[str, Value]) -> dict[str, Array]:
    """Return the arrays, by input, that one value of ``--input`` names."""
    from halfulp.models.run.inputs import needed

    name, equals, file = argument.partition("=")
    if not equals and argument.endswith(".npz"):
        entries = read_npz(Path(argument))
        if unknown := entries.keys() - declared.keys():
            message = f"{argument}: entry {min(unknown)!r} is not an input of {model.file}"
            raise HalfulpError(message, expected=", ".join(map(repr, declared)))
        return entries
    if not equals and len(required := needed(model)) == 1:
        name, file = required[0].name, argument
    if not (name and file):
        raise HalfulpError("an input must be NAME=FILE, FILE.npz or DIM=N", got=argument)
    if name not in declared:
        raise HalfulpError(f"{model.file}: has no input {name!r}; {did_you_mean(name, declared)}")
    return {name: _read(Path(file), declared[name])}


def _rounded(array: Array, declared: Value) -> Array:
    """Return numbers in float32 or float64 in the shorter type of floats that an input has, and warn of that."""
    # The data of a network are those from before its conversion, and NumPy's files have no bfloat16.
    dtype = _dtype(declared)
    is_shorter = declared.type in FLOATS and dtype is not None and dtype.itemsize < 4
    if dtype is None or not is_shorter or array.dtype.name not in ("float32", "float64"):
        return array
    with np.errstate(over="ignore"):
        short = array.astype(dtype)
    lost = np.count_nonzero(np.isfinite(array) & ~np.isfinite(short.astype(np.float32)))
    if lost:
        message = f"input {declared.name!r}: {declared.type} does not hold {lost} of its {array.size} numbers"
        most = np.abs(array[np.isfinite(array)]).max()
        expected = "smaller numbers; or the network in float32, which halfulp audit takes, too"
        raise HalfulpError(message, expected=expected, got=f"{array.dtype.name}, up to {most:.4g}")
    if not np.array_equal(short.astype(array.dtype), array, equal_nan=True):
        line = f"input {declared.name!r}: its numbers, in {array.dtype.name}, are rounded to {declared.type}"
        warnings.warn(line, HalfulpWarning, stacklevel=2)
    return short


def declared_inputs(path: Path) -> Model:
    """Return a model for :func:`fed`. Of an ONNX file only the inputs are read: its nodes may be broken."""
    from halfulp.integrations import ir
    from halfulp.models import onnx

    return onnx.declared_inputs(path) if format_of(path) == "onnx" else ir.load(path)


def to_verify(path: Path, inputs: Names, *, verify: bool) -> tuple[dict[str, Array] | None, dict[str, int]]:
    """Return the arrays that ``--input`` names for ``--verify``, if it names any, and the sizes of dims."""
    if inputs and not verify:
        raise HalfulpError("--input is for --verify, which is not given")
    files, dims = parted(inputs)
    return fed(declared_inputs(path), files) if files else None, dims


def samples(model: Model, arguments: list[str]) -> list[dict[str, Array]]:
    """Return the sets of inputs that ``--input`` names: one, or one for each .npz file of a folder."""
    folders = [Path(argument) for argument in arguments if Path(argument).is_dir()]
    if not folders:
        return [fed(model, arguments)]
    if len(arguments) > 1:
        raise HalfulpError("a folder of inputs is given alone", got=", ".join(arguments))
    files = sorted(folders[0].glob("*.npz"))
    if not files:
        raise HalfulpError(f"{folders[0]}: no .npz files in this folder", expected="a file for each sample")
    return [fed(model, [str(file)]) for file in files]


def _read(path: Path, declared: Value) -> Array:
    if path.suffix == ".npz":
        entries = read_npz(path)
        if declared.name in entries:
            return entries[declared.name]
        if len(entries) == 1:
            return next(iter(entries.values()))
        raise HalfulpError(f"{path}: no entry {declared.name!r}", got=", ".join(entries) or "no entries")
    if path.suffix == ".pb":
        from halfulp.models.onnx.tensors import read_pb  # imported here, because it imports the onnx package

        return read_pb(path)
    if path.suffix == ".npy":
        return read_npy(path, _dtype(declared))
    raise HalfulpError(f"{path}: unsupported input file type", expected=".npy, .npz or .pb")


def _dtype(declared: Value) -> np.dtype[Any] | None:
    from halfulp.models.run.inputs import dtype_named

    return None if declared.type is None else dtype_named(declared.type)


# --- outputs ------------------------------------------------------------------------------------


def placed(place: Path | None, output: Path | None, **formats: Path | None) -> tuple[Path | None, ...]:
    """Return the file for each format of a report, which ``-o`` or a place names by its suffix; or the one output."""
    if place is not None and output is not None:
        raise HalfulpError(f"{place}: is an output, and -o {output} another", expected="one of them")
    output = output or place
    if not formats:
        return (output,)
    if output is None:
        return tuple(formats.values())
    suffix = "json" if is_stdout(output) else output.suffix.lower().removeprefix(".")
    unnamed = [name for name in formats if formats[name] is None]
    if suffix not in unnamed:
        names = " or ".join(map("FILE.{}".format, unnamed))
        raise HalfulpError(f"{output}: -o tells the report's format by its suffix", expected=names)
    return tuple((formats | {suffix: output}).values())


def is_stdout(path: Path | None) -> bool:
    """Whether an option's FILE means standard output."""
    return path == _STDOUT


def check_writable(
    *texts: File, binary: File = None, read: Iterable[File] = (), inputs: Names = None, force: bool = False
) -> None:
    """Refuse outputs that cannot be written, before long work, and without ``force`` those over files that are read.

    Of ``inputs``, the values of ``--input``, some name such files. Only texts can be written to standard output.
    """
    seen = set[Path]()
    named = (Path(argument.partition("=")[2] or argument) for argument in parted(inputs)[0])
    sources = [] if force else [*filter(None, read), *named]
    for path in filter(None, (binary, *texts)):
        real = Path(os.path.realpath(path))  # Path.resolve() fails on links that lead to each other
        key = path if is_stdout(path) else real
        if key in seen:
            raise HalfulpError(f"{path}: two outputs can't be the same file")
        seen.add(key)
        if not is_stdout(path):
            _check_file(path, real, sources)
        elif path is binary:
            raise HalfulpError(f"{path}: only text is written to standard output; name a file")


def _check_file(path: Path, real: Path, sources: Sequence[Path]) -> None:
    if path.exists() and not path.is_file():
        raise HalfulpError(f"{path}: can't be written: not a plain file")
    if not real.parent.is_dir():
        raise HalfulpError(f"{path}: can't be written: there is no folder {path.parent}")
    if not os.access(real.parent, os.W_OK):
        raise HalfulpError(f"{path}: can't be written: Permission denied")
    if path.exists() and any(source.exists() and source.samefile(path) for source in sources):
        raise HalfulpError(f"{path}: is an input, which would be replaced; name another file, or add --force")


def write_text(path: Path, text: str) -> None:
    """Write a text to a file or to standard output, always in UTF-8."""
    data = text.encode(errors="replace")  # the name of a file, in a text, may not be UTF-8
    if is_stdout(path):
        typer.echo(data, nl=not text.endswith("\n"))
        return
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path | None, document: Callable[[], object]) -> None:
    """Make a document and write it as :func:`write_text` does, if an option named a file for it."""
    if path is not None:
        write_text(path, json.dumps(document(), indent=1) + "\n")


def console(*written: Path | None, stderr: bool = False) -> Console:
    """Return a console for tables: standard error, if an output uses standard output. In a pipe it is wide."""
    plain = _Console(stderr=stderr or any(map(is_stdout, written)))
    return plain if plain.is_terminal else _Console(stderr=plain.stderr, width=_PIPED_WIDTH)  # no cell is cut


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # handled with all other errors, instead of exiting with status 1


def say(to: Console, *lines: str) -> None:
    """Print lines without interpreting markup; characters that control a terminal become question marks."""
    if lines:
        shown = (printable(line, most=None) for line in "\n".join(lines).split("\n"))
        to.print("\n".join(shown), markup=False, highlight=False, soft_wrap=True)


def print_rows(to: Console, headers: Cells, rows: Sequence[Cells], numbers: Container[str]) -> None:
    """Print a table; columns of ``numbers`` are right-aligned. If it is too wide, print lines for each row."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        table.add_column(header, justify="right" if header in numbers else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    unbounded = to.options.update(max_width=_UNBOUNDED)
    if Measurement.get(to, unbounded, table).maximum <= to.width:
        to.print(table)
        return
    say(to, "", f"{headers[0]}:")
    for first, *rest in rows:
        named = (f"{header} {cell}" for header, cell in zip(headers[1:], rest, strict=True) if cell)
        # Break lines only between cells.
        text = "; ".join(each.replace("\n", ", ").replace(" ", "\xa0") for each in named)
        lines = wrap(text, to.width - 4, break_long_words=False, break_on_hyphens=False)
        say(to, f"  {first}", *(f"    {line}".replace("\xa0", " ") for line in lines))
    say(to, "")


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a line during long work, if there is a terminal."""
    to = console(stderr=True)
    if not to.is_terminal:
        yield lambda line: None
        return
    with to.status("") as status:
        yield lambda line: status.update(escape(line))
