"""docs/operators/ is what tools/generate_docs.py makes of the rows."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from halfulp.specs import find, ids

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools/generate_docs.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", SCRIPT)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(generator):
    assert generator.out_of_date() == [], "run python tools/generate_docs.py"


@pytest.mark.parametrize("id", ids())
def test_a_page_has_every_clause_and_every_choice(id, generator):
    text = generator.operator_page(find(id)).replace("\\", "")
    op = find(id)
    for clause in op.clauses:
        assert f"| {clause.id} | {clause.text} |" in text
    for item in op.unspecified:
        assert f"| {item.question} | {item.choice} | {item.rule or ''} |" in text
    assert f"<{op.source}>" in text
    assert (op.body or "") in f"{text}\n"
    for example in op.examples:
        assert f"  # {example.name}\n" in text
    standard, _, name = id.partition(".")
    is_first = name in ("Pow-1", "PRelu-1") or name.endswith("-1_0") or standard in ("openvino", "sonnx")
    assert ("[The version before, " in text) != is_first
