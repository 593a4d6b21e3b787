"""The document's text, and that the page in docs describes all of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conformance.report import documents

from halfulp.conformance.case import Case
from halfulp.conformance.check import check
from halfulp.conformance.document import Document, case_entry, dumps
from halfulp.conformance.judge import Judgement

PAGE = Path(__file__).parents[2] / "docs/formats/check.md"
LISTS = ("rows", "specials", "reproducibility", "cases")


@pytest.fixture(scope="module")
def document() -> Document:
    """A document with something in each of its lists: NumPy refuses integers, and rounds half of them wrong."""
    found = check("onnx-reference", operators=["onnx.Pow-12"], types=["int32"], processes=1).document
    assert all(found[part] for part in LISTS)
    return found


def test_it_is_made_to_be_compared(document):
    """Keys in their order, one entry to a line, and nothing that is another tomorrow but under "run"."""
    text = dumps([document])
    assert json.loads(text) == document
    assert json.loads(dumps([document, document])) == [document, document]
    assert list(json.loads(text)) == ["schema", "target", "run", "summary", *LISTS]
    lines = text.splitlines()
    assert sum(line.startswith('  {"id": ') for line in lines) == len(document["cases"])
    assert len(lines) < 60 + sum(len(document[part]) for part in LISTS)
    ids = [case["id"] for case in document["cases"]]
    assert len(ids) == len(set(ids))


def test_numbers_that_json_lacks_are_texts():
    operator, x = "directml.ELEMENT_WISE_CONSTANT_POW-3_0", np.ones(2, np.float32)
    case = Case(f"{operator}/float32/special/all", operator, "special", (x,), {"Exponent": -np.inf})
    assert case_entry(case, Judgement("exact"), None)["attributes"] == {"Exponent": "-inf"}


def keys(value: Any, name: str = "") -> set[str]:
    """Return the keys of all objects, but of those whose keys are other things' names."""
    if isinstance(value, list):
        return {key for item in value for key in keys(item)}
    if not isinstance(value, dict) or name in ("versions", "attributes", "histogram"):
        return set()
    return {*value}.union(*(keys(item, key) for key, item in value.items()))


def test_the_page_names_every_key(document):
    text = PAGE.read_text()
    found = keys(document) | keys(documents.document("by place"))
    assert len(found) > 50
    assert [key for key in found if f"`{key}`" not in text] == []
