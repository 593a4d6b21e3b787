"""The options that verbs share, and the arrays from files and sizes of dims that ``--input`` names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, Option

from halfulp.errors import HalfulpError, HalfulpWarning, did_you_mean
from halfulp.measured import GRADES
from halfulp.models.files import format_of, read_npy, read_npz, viewed
from halfulp.types import FLOATS

if TYPE_CHECKING:
    from halfulp.models.graph import Array, Model, Value

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


def check_grade(grade: str) -> None:
    """Refuse a value of ``--fail-on`` that is no grade."""
    if grade not in GRADES:
        raise HalfulpError(f"no grade {grade[:80]}; {did_you_mean(grade, GRADES)}")


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


def files_of(inputs: Names) -> list[Path]:
    """Return the files that the values of ``--input`` name."""
    return [Path(argument.partition("=")[2] or argument) for argument in parted(inputs)[0]]


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
        return {required[0].name: _read(Path(argument), required[0])}
    if not (name and file):
        raise HalfulpError("an input must be NAME=FILE, FILE.npz or DIM=N", got=argument)
    if name not in declared:
        raise HalfulpError(f"{model.file}: has no input {name!r}; {did_you_mean(name, declared)}")
    return {name: _read(Path(file), declared[name])}


def _rounded(array: Array, declared: Value) -> Array:
    """Return numbers in float32 or float64 in the shorter type of floats that an input has, and warn of that.

    The data of a network are those from before its conversion, and NumPy's files have no bfloat16.
    """
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
