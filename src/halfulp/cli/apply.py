"""``halfulp apply``: one operator on .npy files, in pieces, so that files may be larger than memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from typer import Argument, Option

from halfulp._interop import Number
from halfulp.cli.inputs import Names
from halfulp.cli.output import FORCE, check_writable
from halfulp.errors import HalfulpError
from halfulp.models.files import NpyFile, create_npy, open_npy, replacing
from halfulp.models.graph import Array
from halfulp.operators import Operator, pow, prelu
from halfulp.operators import op as find_operator
from halfulp.specs.tensor import tensor_type
from halfulp.types import element_type

_PIECE = 1 << 22  # elements: some tens of MiB for the widest types

Region = tuple[slice, ...]
Operand = NpyFile | Array


def apply(
    id: Annotated[str, Argument(metavar="OPERATOR", help="Such as onnx.Pow-15.")],
    inputs: Annotated[
        list[str],
        Argument(
            metavar="X.npy [Y.npy]", help="The inputs; one of two may be a number, a negative one after --."
        ),
    ],
    output: Annotated[Path, Option("--output", "-o", metavar="Z.npy", help="Where to write.")],
    attributes: Annotated[
        Names,
        Option(
            "--attr",
            metavar="NAME=VALUE",
            help="An attribute, spelled as in the document; lists and ScaleBias with commas.",
        ),
    ] = None,
    types: Annotated[
        Names,
        Option(
            "--type",
            metavar="NAME=TYPE",
            help="The type of an input that NumPy has no name for, such as x=bfloat16: x and y, or"
            " the document's names. NumPy stores these types as raw bytes; so does the output.",
        ),
    ] = None,
    force: Annotated[bool, FORCE] = False,
) -> None:
    """Apply one operator to .npy files. They are memory-mapped and may be larger than memory.

    Example: halfulp apply onnx.Pow-1 x.npy y.npy -o z.npy --attr broadcast=1 --attr axis=0
    """
    op = find_operator(id)
    if len(inputs) != len(op.inputs):
        wanted = ", ".join(port.name for port in op.inputs)
        raise HalfulpError(f"{op.id} takes {len(op.inputs)} inputs", expected=wanted, got=len(inputs))
    operands = _operands(op, inputs, _types(op, types or []))
    read = [each.path for each in operands if isinstance(each, NpyFile)]
    check_writable(output, binary=True, read=read, force=force)
    values = dict(_attribute(op, text) for text in attributes or [])
    if not values.keys() <= {attribute.name for attribute in op.attributes}:
        op.infer(*map(tensor_type, operands), **values)  # raises the error, with its clause
    _stream(op, operands, values, output)
    typer.echo(f"{op.id}: {output}")


def _operands(op: Operator, inputs: list[str], types: dict[int, np.dtype[Any]]) -> list[Operand]:
    """Return the files, and each number as an array of its type beside them."""
    given: list[NpyFile | Number] = []
    for index, text in enumerate(inputs):
        number = None if Path(text).exists() else _number(text)
        given.append(_opened(Path(text), types.get(index)) if number is None else number)
    files = [each for each in given if isinstance(each, NpyFile)]
    if not files:
        raise HalfulpError("one of the inputs must be a .npy file", got=", ".join(inputs))
    if len(files) == len(given):
        return list(files)
    x, y = (np.empty(0, each.dtype) if isinstance(each, NpyFile) else each for each in given)
    arrays = op.as_arrays(x, y)
    return [each if isinstance(each, NpyFile) else array for each, array in zip(given, arrays, strict=True)]


def _number(text: str) -> Number | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def _opened(path: Path, dtype: np.dtype[Any] | None) -> NpyFile:
    file = open_npy(path, dtype)
    if dtype is not None and (held := tensor_type(file).type) != element_type(dtype).name:
        # Only raw bytes are viewed as the type that --type names. Nothing is ever converted.
        raise HalfulpError(f"{path}: holds another type than --type says", expected=dtype.name, got=held)
    return file


def _types(op: Operator, given: list[str]) -> dict[int, np.dtype[Any]]:
    names = {port.name: index for index, port in enumerate(op.inputs)}
    names |= dict(zip("xy", range(len(op.inputs)), strict=False))
    found = {}
    for text in given:
        name, equals, type_name = text.partition("=")
        if name not in names or not equals:
            raise HalfulpError(
                "a type must be NAME=TYPE", expected=f"{', '.join(names)}, such as x=bfloat16", got=text
            )
        found[names[name]] = element_type(type_name).dtype
    return found


def _attribute(op: Operator, text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise HalfulpError("an attribute must be NAME=VALUE", got=text)
    kinds = {attribute.name: attribute.type for attribute in op.attributes}
    parse = _PARSERS.get(kinds.get(name, "string"), str)
    try:
        return name, parse(value)
    except ValueError:
        raise HalfulpError(f"attribute {name} must be of type {kinds[name]}", got=value) from None


_PARSERS: dict[str, Callable[[str], Any]] = {
    "INT": int,
    "INTS": lambda text: [int(part) for part in text.split(",") if part],
    "FLOAT": float,
    "DML_SCALE_BIAS": lambda text: [float(part) for part in text.split(",")],
}


def _stream(op: Operator, operands: list[Operand], attributes: dict[str, Any], output: Path) -> None:
    """Compute piece by piece. Each piece is mapped only while it is computed."""
    x, *others = map(tensor_type, operands)
    plan = op.plan(x, others[0] if others else None, attributes)
    shapes = [operands[0].shape, plan.y_shape][: len(operands)]
    shape = np.broadcast_shapes(*shapes)
    evaluate = _evaluator(op, attributes)
    with replacing(output) as temporary:
        try:
            result = create_npy(temporary, element_type(plan.output.type).dtype, shape)
        except OSError as error:
            raise HalfulpError(f"{output}: can't be written: {error.strerror}") from None
        for region in _tracked(list(regions(shape, _PIECE))):
            # Unmap each piece after its computation: Windows cannot replace a mapped file.
            evaluate(
                *(window(file, own, region) for file, own in zip(operands, shapes, strict=True)),
                out=window(result, shape, region, "r+"),
            )


def _evaluator(op: Operator, attributes: dict[str, Any]) -> Callable[..., Any]:
    """Return a function that computes one piece.

    The operator's own broadcasting rule could treat a piece of the operands differently from the whole.
    The plan has already applied that rule, so that only NumPy's broadcasting remains.
    """
    if op.kernel == "pow":
        return pow
    if op.kernel == "prelu":
        return prelu
    return lambda *operands, out: op(*operands, out=out, **attributes)


def _tracked(pieces: list[tuple[slice, ...]]) -> Iterator[tuple[slice, ...]]:
    terminal = Console(stderr=True)
    if len(pieces) < 2 or not terminal.is_terminal:
        yield from pieces
        return
    with Progress(console=terminal, transient=True) as progress:
        yield from progress.track(pieces, description="applying")


# --- pieces along the leading dims ---------------------------------------------------------------


def regions(shape: tuple[int, ...], limit: int) -> Iterator[Region]:
    """Yield regions that cover an array of this shape once, in order, each with at most ``limit`` elements.

    Each region is contiguous in an array in C order.
    """
    if 0 in shape:
        return
    # Cut the first dim whose trailing block fits. The dims before it are iterated one index at a time.
    cut = next((axis for axis in range(len(shape)) if math.prod(shape[axis + 1 :]) <= limit), 0)
    if not shape:
        yield ()
        return
    step = max(limit // math.prod(shape[cut + 1 :]), 1)
    whole = tuple(slice(0, size) for size in shape[cut + 1 :])
    for lead in itertools.product(*map(range, shape[:cut])):
        ones = tuple(slice(index, index + 1) for index in lead)
        for start in range(0, shape[cut], step):
            yield (*ones, slice(start, min(start + step, shape[cut])), *whole)


def window(file: Operand, shape: tuple[int, ...], region: Region, mode: Literal["r", "r+"] = "r") -> Array:
    """Map the part of an operand that a region of the output needs.

    Args:
        file: the operand.
        shape: its shape before broadcasting: the file's own shape with dims of 1 inserted.
        region: a region of the output from :func:`regions`. Dims of 1 are mapped whole.
    """
    parts = region[len(region) - len(shape) :]
    parts = tuple(slice(0, 1) if size == 1 else part for size, part in zip(shape, parts, strict=True))
    if isinstance(file, np.ndarray):
        return expanded(file, shape)[parts]
    if file.fortran:
        return expanded(file.map(), shape)[parts]
    start = 0
    for size, part in zip(shape, parts, strict=True):
        start = start * size + part.start
    return file.map_part(start, tuple(part.stop - part.start for part in parts), mode)


def expanded(array: Array, shape: tuple[int, ...]) -> Array:
    """Return a view of an array with dims of 1 inserted to get this shape. It never copies.

    Dims of a one-element array may also be removed.
    """
    if array.size == 1:
        return array.reshape(shape)
    # reshape() would copy an array in Fortran order, and the array may be larger than memory.
    sizes = iter(array.shape)
    size = next(sizes, None)
    index: list[slice | None] = []
    for dim in shape:
        if dim == size:
            index.append(slice(None))
            size = next(sizes, None)
        else:
            index.append(np.newaxis)
    return array[tuple(index)]
