"""The models in a folder and the folders below it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from halfulp.errors import printable

_PIECE = 1 << 20
_MARKS = {".xml": b"<net", ".json": b'"dispatchables"'}
"""What tells an IR file and a DxDispatch file from others of that suffix."""


@dataclass(frozen=True)
class Found:
    """A file of a folder.

    Attributes:
        path: where it is.
        name: relative to the folder, with forward slashes, printable.
        error: why it can't be looked at; None where it can.
    """

    path: Path
    name: str
    error: str | None = None


def models(folder: Path) -> Iterator[Found]:
    """Give the models of a folder in the order of their names: .onnx, and .xml and .json that are models.

    Links are followed, but no folder is entered twice; what can't be read is given with the reason.
    """
    entered: set[tuple[int, int]] = set()
    todo = [folder]
    while todo:
        here = todo.pop()
        try:
            status = here.stat()
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            with os.scandir(here) as entries:
                found = sorted((entry.name, _is_folder(entry)) for entry in entries)
        except OSError as error:
            yield Found(here, _name(here, folder), f"can't be read: {error.strerror}")
            continue
        for name, is_folder in found:
            if not is_folder:
                yield from _model(here / name, folder)
        todo += [here / name for name, is_folder in reversed(found) if is_folder]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _model(path: Path, folder: Path) -> Iterator[Found]:
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        yield Found(path, _name(path, folder))
    elif suffix in _MARKS:
        try:
            if path.is_file() and _holds(path, _MARKS[suffix]):
                yield Found(path, _name(path, folder))
        except OSError as error:
            yield Found(path, _name(path, folder), f"can't be read: {error.strerror}")


def _holds(path: Path, mark: bytes) -> bool:
    """Tell whether a file holds some bytes, without having it in memory."""
    with path.open("rb") as stream:
        before = b""
        while piece := stream.read(_PIECE):
            if mark in before + piece:
                return True
            before = piece[-len(mark) :]
    return False


def _name(path: Path, folder: Path) -> str:
    text = os.fsencode(path.relative_to(folder).as_posix()).decode("utf-8", "replace")
    return printable(text, most=None)
