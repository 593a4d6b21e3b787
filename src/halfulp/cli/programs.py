"""``halfulp exec``: any program with the exact power. ``halfulp doors``: the same powers by every way into halfulp.

``halfulp demo``: four small networks to try the other verbs on. ``halfulp spec``: the page of an operator version.
"""

import os
import shutil
from collections.abc import Mapping
from filecmp import cmp
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from halfulp.cli.shared import OUTPUT, WRITE, File, Names, console, placed, print_rows, working
from halfulp.doors import COUNT, DIGESTS, DOORS, measure
from halfulp.errors import HalfulpError, did_you_mean, in_shell, named
from halfulp.installed import get_libm
from halfulp.pages import WIDTH, page, text
from halfulp.specs import find, ids

_NARROWEST = 60  # columns of a page
_TIMES = [f"ns, {dtype}" for dtype in DIGESTS]


def exec(
    command: Annotated[
        Names, Argument(metavar="PROGRAM [ARGUMENTS]...", help="The program and its arguments.")
    ] = None,
    paths: Annotated[bool, Option("--paths", help="Print the library that is preloaded, and end.")] = False,
) -> None:
    """Run a program of which every pow, powf and power of vectors is correctly rounded. Linux on x86-64.

    It becomes this process, with the library libhalfulp_m before its own (LD_PRELOAD).

    Example: halfulp exec python model.py
    """
    library = get_libm()
    if paths:
        typer.echo(library)
        return
    if not command or not command[0]:
        raise HalfulpError("name the program to run, such as: halfulp exec python model.py")
    if set(library) & set(" :"):  # they separate the names in LD_PRELOAD
        raise HalfulpError(f"{library}: ld.so preloads no file whose path has a space or a colon")
    others = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = f"{library}:{others}" if others else library
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise HalfulpError(f"{command[0]}: {error.strerror}") from None


def doors(
    names: Annotated[Names, Argument(metavar="[DOOR]...", help="Names of doors; all if not given.")] = None,
    count: Annotated[int, Option(min=1, max=10**7, help="The number of powers of each type.")] = COUNT,
) -> None:
    """Compute a million fixed powers by every way into halfulp, and print a digest of their bits for each.

    Half of the powers are hard cases. A digest is the first 16 digits of a SHA-256.

    Example: halfulp doors 'hu.pow of arrays' 'ONNX Runtime'
    """
    rows, any_differs = [], False
    with working() as progress:
        arrays = {} if count == COUNT else measure("hu.pow of arrays", count)
        expected = DIGESTS | {dtype: result[0] for dtype, result in arrays.items()}
        for given in names or DOORS:
            if (name := named(given, DOORS)) is None:
                raise HalfulpError(f"{given}: no door has this name; {did_you_mean(given, DOORS)}")
            progress(name)
            differs, cells = _cells(measure(name, count), expected)
            rows.append([name, *cells])
            any_differs |= differs
    print_rows(console(), ["door", *DIGESTS, "", *_TIMES], rows, _TIMES)
    if any_differs:
        raise typer.Exit(1)


def _cells(results: Mapping[str, Any], expected: Mapping[str, str]) -> tuple[bool, list[str]]:
    """Return whether the results of a door differ, and its digests, the verdict and its times."""
    digests = {dtype: results[dtype][0] for dtype in DIGESTS if dtype in results}
    differs = "failed" in results or not digests.items() <= expected.items()
    says = results.get("absent") or results.get("failed") or ("differs" if differs else "right")
    times = [f"{results[dtype][1]:.0f}" if dtype in digests else "" for dtype in DIGESTS]
    return differs, [*(digests.get(dtype, "") for dtype in DIGESTS), says, *times]


def spec(
    id: Annotated[
        str | None,
        Argument(metavar="OPERATOR", help="For example onnx.Pow-12. Without it, all versions are listed."),
    ] = None,
) -> None:
    """Show an operator version's rules, types and examples, or the list of versions.

    Example: halfulp spec onnx.Pow-12
    """
    if id is None:
        typer.echo("\n".join(ids()))
        return
    width = max(min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH), _NARROWEST)
    typer.echo(text(page(find(id)), width))


# --- networks to try -----------------------------------------------------------------------------------

NETWORKS = Path(__file__).parents[1] / "demo"

_TRY = (
    ("refused by ONNX Runtime", "repair {}/face.onnx repaired.onnx"),
    ("answers zeros", "audit {0}/norm_float16.onnx -i {0}/norm_float16.npz"),
    ("PRelu per channel", "bench {}/super_resolution.onnx"),
    ("LayerNorm and GELU", "convert {}/transformer_block.onnx older.onnx --opset 11 --verify"),
)


def demo(
    place: Annotated[File, Argument(metavar="[FOLDER]", help="The same as -o.")] = None,
    output: Annotated[File, WRITE(help="Where to write: halfulp-demo by default.", metavar="FOLDER")] = None,
    force: Annotated[bool, OUTPUT("--force", metavar="", help="Write even over other files.")] = False,
) -> None:
    """Write four small networks, and name a command to try on each.

    Example: halfulp demo
    """
    (chosen,) = placed(place, output)
    folder = chosen or Path("halfulp-demo")
    if folder.exists() and not folder.is_dir():
        raise HalfulpError(f"{folder}: not a folder")
    for path in NETWORKS.iterdir():
        if not force and (folder / path.name).exists() and not cmp(path, folder / path.name, shallow=False):
            other = f"{folder / path.name}: is another file, which would be replaced"
            raise HalfulpError(f"{other}; name another folder, or add --force")
    shutil.copytree(NETWORKS, folder, dirs_exist_ok=True)
    for path in sorted(NETWORKS.iterdir()):
        typer.echo(f"{folder / path.name} ({path.stat().st_size:,} bytes)")
    typer.echo("\nTry:")
    for what, command in _TRY:
        typer.echo(f"  halfulp {command.format(in_shell(folder))}    # {what}")
