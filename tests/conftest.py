"""Hypothesis tries the same examples in each run, unless HALFULP_SEED is "fresh"."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, database=None)
if os.environ.get("HALFULP_SEED") != "fresh":
    settings.load_profile("fixed")
