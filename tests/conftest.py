"""Fixtures of several folders. Hypothesis tries the same examples in each run, unless HALFULP_SEED is "fresh"."""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# No example has a time limit: a busy machine may stop for longer than any.
settings.register_profile("fresh", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("fresh"), derandomize=True, database=None)
settings.load_profile("fresh" if os.environ.get("HALFULP_SEED") == "fresh" else "fixed")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A test's own generator, of the seed 1, or HALFULP_SEED; of a fresh one, which a failure shows, for "fresh"."""
    given = os.environ.get("HALFULP_SEED") or "1"
    seed = secrets.randbits(32) if given == "fresh" else int(given)
    print(f"HALFULP_SEED={seed}")
    return np.random.default_rng([seed, *request.node.name.encode()])


@pytest.fixture
def python() -> Callable[..., str]:
    """Runs a program in a fresh interpreter and returns what it printed."""

    def run(program: str, *arguments: object, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
