"""docs/operators/ is what tools/generate_docs.py makes of the rows."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from halfulp.specs import find, ids
from halfulp.types import TYPES

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools/generate_docs.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(generator: ModuleType) -> None:
    assert generator.out_of_date() == [], "run python tools/generate_docs.py"


def test_two_runs_give_the_same_bytes(generator: ModuleType) -> None:
    here = "\n".join(generator.generate().values())
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; import generate_docs;"
        "sys.stdout.buffer.write('\\n'.join(generate_docs.generate().values()).encode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(SCRIPT.parent), str(ROOT / "src")],
        capture_output=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
    )
    assert done.stdout.decode() == here


def test_the_matrix_says_what_the_rows_say(generator: ModuleType) -> None:
    table = generator.matrix()
    column = {name: n for n, cell in enumerate(table.header) for name in cell.split(", ")}
    assert set(TYPES) < set(column)
    for row in table.rows:
        op = find(row[0])
        for name in TYPES:
            takes = [name in op.type_variables[port.type] for port in op.inputs]
            assert [sign in row[column[name]] for sign in "xy"][: len(takes)] == takes


@pytest.mark.parametrize("id", ids())
def test_a_page_has_every_clause_and_every_choice(id: str, generator: ModuleType) -> None:
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


def test_every_table_is_well_formed(generator: ModuleType) -> None:
    for path, text in generator.generate().items():
        for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
            bars = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().splitlines()}
            assert len(bars) == 1, (path, block)


def test_stray_and_stale_pages_are_noticed(generator: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "docs/operators").mkdir(parents=True)
    for path, text in generator.generate().items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert generator.out_of_date(tmp_path) == []
    (tmp_path / "docs/operators/onnx.Pow-2.md").write_text("no such version")
    (tmp_path / "docs/operators/index.md").write_text("old")
    assert [path.name for path in generator.out_of_date(tmp_path)] == ["index.md", "onnx.Pow-2.md"]
