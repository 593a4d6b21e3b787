"""The output of a verb: files, written completely or not at all, and text also to standard output (``-``)."""

import json
import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from halfulp.errors import HalfulpError, printable
from halfulp.models.files import replacing

_STDOUT = Path("-")
_PIPED_WIDTH = 160
_UNBOUNDED = 100_000  # columns, to measure a table in


def placed(place: Path | None, output: Path | None, **formats: Path | None) -> tuple[Path | None, ...]:
    """Return the file for each format of a report, where ``-o FILE`` or a place names one by its suffix.

    Without formats, return the one output that is named.
    """
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
    *paths: Path | None, binary: bool = False, read: Iterable[Path | None] = (), force: bool = False
) -> None:
    """Refuse outputs that cannot be written, before long work instead of after it.

    Standard output takes text only. An output replaces a file that the verb reads only with ``force``.
    """
    seen = set[Path]()
    sources = [] if force else [source for source in filter(None, read) if source.exists()]
    for path in filter(None, paths):
        real = Path(os.path.realpath(path))  # Path.resolve() fails on links that lead to each other
        key = path if is_stdout(path) else real
        if key in seen:
            raise HalfulpError(f"{path}: two outputs can't be the same file")
        seen.add(key)
        if not is_stdout(path):
            _check_file(path, real, sources)
        elif binary:
            raise HalfulpError(f"{path}: only text is written to standard output; name a file")


def _check_file(path: Path, real: Path, sources: Sequence[Path]) -> None:
    if path.exists() and not path.is_file():
        raise HalfulpError(f"{path}: can't be written: not a plain file")
    if not real.parent.is_dir():
        raise HalfulpError(f"{path}: can't be written: there is no folder {path.parent}")
    if not os.access(real.parent, os.W_OK):
        raise HalfulpError(f"{path}: can't be written: Permission denied")
    if path.exists() and any(source.samefile(path) for source in sources):
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


def console(*, stderr: bool = False) -> Console:
    """Return a console for tables. In a file or a pipe it is wide, so that no cell is cut."""
    plain = _Console(stderr=stderr)
    return plain if plain.is_terminal else _Console(stderr=stderr, width=_PIPED_WIDTH)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # handled with all other errors, instead of exiting with status 1


def people(*written: Path | None) -> Console:
    """Return the console for tables. If an output uses standard output, the console is standard error."""
    return console(stderr=any(map(is_stdout, written)))


def say(to: Console, *lines: str) -> None:
    """Print lines without interpreting markup; characters that control a terminal become question marks."""
    if lines:
        shown = (printable(line, most=None) for line in "\n".join(lines).split("\n"))
        to.print("\n".join(shown), markup=False, highlight=False, soft_wrap=True)


def print_rows(
    to: Console, headers: Sequence[str], rows: Sequence[Sequence[str]], numbers: Container[str]
) -> None:
    """Print a table; the columns of ``numbers`` are right-aligned.

    If its cells do not fit, print a heading and lines for each row, so that none is cut.
    """
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
