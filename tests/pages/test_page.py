"""The page of a row: complete, narrow, as text and as HTML."""

from html import escape

import pytest
from tests.pages.elements import Elements

import halfulp as hu
from halfulp.pages import page, text
from halfulp.specs import find, ids

every_row = pytest.mark.parametrize("op", [find(id) for id in ids()], ids=ids())


@every_row
def test_text_shows_all_that_the_row_says(op):
    text = str(hu.op(op.id))
    squeezed = "".join(text.split())
    for part in (op.id, op.summary, op.source, *(clause.text for clause in op.clauses)):
        assert "".join(part.split()) in squeezed
    for port in (*op.inputs, *op.outputs):
        assert f" {port.name} " in text
    for attribute in op.attributes:
        assert attribute.name in text
    assert repr(op) == f"<{op.id}>"


@every_row
def test_text_is_narrow(op):
    for width in (60, 80, 100):
        prose = text(page(op), width).partition("\nExamples of the document")[0]
        assert [line for line in prose.splitlines() if len(line) > width and "https://" not in line] == []


ELEMENTS = {"table", "thead", "tbody", "tr", "th", "td", "h3", "h4", "p", "pre", "a"}


@every_row
def test_html_is_tables_and_is_escaped(op):
    made = hu.op(op.id)._repr_html_()
    assert {"table", "th", "td", "h3"} <= {tag for tag, _ in Elements(made).found} <= ELEMENTS
    assert escape(op.summary) in made
