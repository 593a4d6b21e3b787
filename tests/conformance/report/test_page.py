"""The page as text: whole, self-contained, and safe against what documents say."""

import html
import re
from typing import Any

import pytest

pytest.importorskip("jinja2")

from tests.conformance.report.documents import document, documents, whole_page
from tests.pages.elements import Elements

from halfulp.conformance.report import SHOWN, render, short

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'<!--"


@pytest.fixture
def text() -> str:
    return whole_page()


def test_ids_are_unique_and_every_reference_leads_to_one(text):
    found = [attributes for _, attributes in Elements(text).found]
    ids = [attributes["id"] for attributes in found if "id" in attributes]
    assert len(ids) == len(set(ids)) > 20
    names = ("href", "for", "aria-labelledby")
    references = {attributes[name] for attributes in found for name in names if attributes.get(name)}
    assert {str(reference).removeprefix("#") for reference in references} <= {*ids}


def test_nothing_is_loaded_from_anywhere(text):
    for tag, attributes in Elements(text).found:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base")
        assert not {"src", "style", "srcset", "action"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
        assert str(attributes.get("href", "#")).startswith("#")
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert "url(" not in text


def test_the_policy_forbids_the_network_and_names_the_script_by_its_digest(text):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src &#39;none&#39;;")
    assert "unsafe" not in policy
    assert len(re.findall(r"sha256-[A-Za-z0-9+/]{43}=", policy)) == 2


def hostile() -> Any:
    """Return a document that says hostile things wherever a document says anything freely."""
    found = document("reference")
    found["target"] = {"name": HOSTILE, "versions": {HOSTILE: HOSTILE}}
    found["run"] |= {"machine": HOSTILE, "halfulp": HOSTILE, "date": HOSTILE, "python": HOSTILE}
    found["run"]["selection"]["types"] = [HOSTILE]
    for row in found["rows"]:
        row["message"] = HOSTILE
    for case in found["cases"]:
        case |= {"message": HOSTILE, "confirmed": HOSTILE, "attributes": {HOSTILE: HOSTILE}}
        if case["clause"]:
            case["clause"] = HOSTILE
        if case["example"]:
            case["example"]["got"] = {"value": HOSTILE, "bits": HOSTILE}
            case["example"]["expected"] = {"value": HOSTILE, "bits": HOSTILE}
    for entry in found["specials"]:
        entry["grid"][5] |= {"x": HOSTILE, "expected": HOSTILE, "got": HOSTILE, "verdict": "wrong"}
    for entry in found["reproducibility"]:
        number = {"value": HOSTILE, "bits": HOSTILE}
        entry |= {"verdict": "differs"}
        entry["example"] = {
            "case": HOSTILE,
            "index": [],
            "inputs": [number],
            "first": number,
            "again": number,
        }
    return found


def test_what_documents_say_stays_text():
    made = render([hostile(), document("by place")])
    elements = Elements(made)
    assert [tag for tag, _ in elements.found].count("script") == 1
    assert not [tag for tag, _ in elements.found if tag == "img"]
    assert "<!--" not in made
    assert f"<dd>{html.escape(HOSTILE, quote=False)[:20]}" in made


def test_every_finding_is_on_the_page(text):
    found = Elements(text).found
    listed = [attributes for tag, attributes in found if tag == "li" and "data-verdict" in attributes]
    assert len(listed) == sum(len(one["cases"]) for one in documents())
    for one in documents():
        for case in one["cases"]:
            assert f"<code>{case['id']}</code>" in text
        for cell in (
            cell for entry in one["specials"] for cell in entry["grid"] if cell["verdict"] == "wrong"
        ):
            assert f"<td>{cell['expected']}</td><td>{cell['got']}</td>" in text


def test_an_empty_page_and_a_clean_target():
    Elements(render([]))
    clean = render([document("right") | {"cases": []}])
    Elements(clean)
    assert "<p>None.</p>" in clean


def test_no_two_verdicts_have_one_sign():
    signs = [shown.sign for shown in SHOWN.values()]
    assert len(set(signs)) == len(signs)


@pytest.mark.parametrize(("number", "text"), [(4096, "4096"), (0.5, "0.5"), (2.0**63, "9.2e18")])
def test_a_number_is_short(number, text):
    assert short(number) == text
