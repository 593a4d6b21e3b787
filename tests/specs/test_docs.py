"""docs/operators/ is what tools/generate_docs.py makes of the rows."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools/generate_docs.py"


def test_the_pages_are_up_to_date():
    assert runpy.run_path(str(SCRIPT))["out_of_date"]() == [], "run python tools/generate_docs.py"
