"""The document's text and its reader, and that the page in docs describes all of it."""

from __future__ import annotations

import copy
import json
import os
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from halfulp.conformance.check import check
from halfulp.conformance.document import Document, Listed, dumps, load, load_allowed, loads
from halfulp.errors import HalfulpError

PAGE = Path(__file__).parents[2] / "docs/formats/check.md"


@pytest.fixture(scope="module")
def document() -> Document:
    """A document with something in each of its lists: NumPy refuses integers, and rounds half of them wrong."""
    found = check("onnx-reference", operators=["onnx.Pow-12"], types=["int32"], processes=1).document
    assert all(found[part] for part in ("rows", "specials", "reproducibility", "cases"))  # type: ignore[literal-required]
    return found


def test_what_is_written_is_read(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    path.write_text(dumps([document]), encoding="utf-8")
    assert load(path) == [document]
    path.write_text(dumps([document, document]), encoding="utf-8")
    assert load(path) == [document, document]


def test_it_is_made_to_be_compared(document: Document) -> None:
    """Keys in their order, one entry to a line, and nothing that is another tomorrow but under "run"."""
    text = dumps([document])
    assert list(json.loads(text)) == list(typing.get_type_hints(Document))
    lines = text.splitlines()
    assert sum(line.startswith('  {"id": ') for line in lines) == len(document["cases"])
    assert len(lines) < 60 + sum(
        len(document[part]) for part in ("rows", "specials", "reproducibility", "cases")
    )  # type: ignore[literal-required]
    ids = [case["id"] for case in document["cases"]]
    assert len(ids) == len(set(ids))


def broken(document: Document, change: str, value: Any) -> str:
    """Return the text of a document with one part changed; "-" removes it."""
    copied: Any = copy.deepcopy(document)
    *path, last = change.split(".")
    part = copied
    for step in path:
        part = part[int(step)] if step.isdigit() else part[step]
    if value == "-":
        del part[last]
    else:
        part[int(last) if last.isdigit() else last] = value
    return json.dumps(copied)


@pytest.mark.parametrize(
    ("change", "value", "says"),
    [
        ("schema", "halfulp.check/2", "not a document of halfulp.check/1"),
        ("target", [], "target must be an object"),
        ("target.name", 1, "target.name must be a text"),
        ("run.mode", "slow", "run.mode must be quick or full"),
        ("run.seconds", float("nan"), "run.seconds must be a number"),
        ("run.selection.types", "int32", "run.selection.types must be a list"),
        ("summary.wrong", -1, "summary.wrong must be an integer >= 0"),
        ("rows", {}, "rows must be a list"),
        ("rows.0.verdict", "good", "rows[0].verdict must be rejected, "),
        ("rows.0.worst", 3, "rows[0].worst must be a text"),
        ("specials.0.grid.0.x", 1, "specials[0].grid[0].x must be a text"),
        ("cases.0.shapes.0", 3, "cases[0].shapes[0] must be a list"),
        ("cases.0.example", {"index": []}, "cases[0].example must have index, inputs"),
        ("cases.0.allowed", 0, "cases[0].allowed must be true or false"),
        ("cases.0.attributes", {"alpha": float("nan")}, "cases[0].attributes['alpha'] must be JSON"),
    ],
)
def test_broken_documents(change: str, value: Any, says: str, document: Document) -> None:
    with pytest.raises(HalfulpError) as caught:
        loads(broken(document, change, value), "old.json")
    assert says in str(caught.value)
    assert str(caught.value).startswith("old.json: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "not JSON") for text in ("", "{", "[" * 100_000)),
        *((text, "not a document of halfulp.check/1") for text in ("1", "[1]", "null", '{"schema": []}')),
    ],
)
def test_no_documents(text: str, words: str) -> None:
    with pytest.raises(HalfulpError, match=words):
        loads(text)


@pytest.mark.parametrize("read", [load, load_allowed])
def test_files_that_can_not_be_read(read: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for a writer
    for name, says in (
        ("missing", "can't be read"),
        ("bytes", "not UTF-8"),
        (".", "not a plain file"),
        ("/dev/zero", "not a plain file"),
        ("pipe", "not a plain file"),
        ("large", "too large"),
    ):
        with pytest.raises(HalfulpError) as caught:
            read(tmp_path / name)
        assert says in str(caught.value)


def test_the_page_names_every_key() -> None:
    text = PAGE.read_text()
    kinds = [
        kind
        for kind in vars(sys.modules[Document.__module__]).values()
        if typing.is_typeddict(kind) and kind.__module__ == Document.__module__ and kind is not Listed
    ]
    assert len(kinds) > 10
    for kind in kinds:
        for key in typing.get_type_hints(kind):
            assert f"`{key}`" in text, f"{kind.__name__}.{key}"
