"""The document's text, and that the page in docs describes all of it."""

from __future__ import annotations

import json
import os
import sys
import typing
from pathlib import Path

import pytest

from halfulp.conformance.check import check
from halfulp.conformance.document import Document, dumps, load_allowed
from halfulp.errors import HalfulpError

PAGE = Path(__file__).parents[2] / "docs/formats/check.md"


@pytest.fixture(scope="module")
def document() -> Document:
    """A document with something in each of its lists: NumPy refuses integers, and rounds half of them wrong."""
    found = check("onnx-reference", operators=["onnx.Pow-12"], types=["int32"], processes=1).document
    assert all(found[part] for part in ("rows", "specials", "reproducibility", "cases"))  # type: ignore[literal-required]
    return found


def test_it_is_made_to_be_compared(document: Document) -> None:
    """Keys in their order, one entry to a line, and nothing that is another tomorrow but under "run"."""
    text = dumps([document])
    assert json.loads(text) == document
    assert json.loads(dumps([document, document])) == [document, document]
    assert list(json.loads(text)) == list(typing.get_type_hints(Document))
    lines = text.splitlines()
    assert sum(line.startswith('  {"id": ') for line in lines) == len(document["cases"])
    assert len(lines) < 60 + sum(
        len(document[part]) for part in ("rows", "specials", "reproducibility", "cases")
    )  # type: ignore[literal-required]
    ids = [case["id"] for case in document["cases"]]
    assert len(ids) == len(set(ids))


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
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
            load_allowed(tmp_path / name)
        assert says in str(caught.value)


def test_the_page_names_every_key() -> None:
    text = PAGE.read_text()
    kinds = [
        kind
        for kind in vars(sys.modules[Document.__module__]).values()
        if typing.is_typeddict(kind) and kind.__module__ == Document.__module__
    ]
    assert len(kinds) > 10
    for kind in kinds:
        for key in typing.get_type_hints(kind):
            assert f"`{key}`" in text, f"{kind.__name__}.{key}"
