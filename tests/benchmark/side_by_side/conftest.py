"""The modules of benchmarks/side_by_side, which is no part of the package."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))


def _module(name: str) -> Any:
    @pytest.fixture(name=name)
    def module() -> Any:
        return importlib.import_module(f"side_by_side.{name}")

    return module


bars, line, measure, memory, page, rows = map(_module, ("bars", "line", "measure", "memory", "page", "rows"))
