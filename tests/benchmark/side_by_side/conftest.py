"""The modules of benchmarks/side_by_side, which is no part of the package."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def _module(name: str) -> Any:
    @pytest.fixture(name=name)
    def module(monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module(f"side_by_side.{name}")

    return module


bars, chart, line, measure, memory, page, rows, worst = map(
    _module, ("bars", "chart", "line", "measure", "memory", "page", "rows", "worst")
)
