"""``halfulp demo``: four small networks to try the other verbs on."""

from __future__ import annotations

import shutil
from filecmp import cmp
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from halfulp.cli.inputs import OUTPUT, File, output_option
from halfulp.cli.output import placed
from halfulp.errors import HalfulpError, in_shell

NETWORKS = Path(__file__).parents[1] / "demo"

_TRY = (
    ("refused by ONNX Runtime", "repair {}/face.onnx repaired.onnx"),
    ("answers zeros", "audit {0}/norm_float16.onnx -i {0}/norm_float16.npz"),
    ("PRelu per channel", "bench {}/super_resolution.onnx"),
    ("LayerNorm and GELU", "convert {}/transformer_block.onnx older.onnx --opset 11 --verify"),
)


def demo(
    place: Annotated[File, Argument(metavar="[FOLDER]", help="The same as -o.")] = None,
    output: Annotated[File, output_option("Where to write: halfulp-demo by default.", "FOLDER")] = None,
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
