"""Fixtures of the core's tests."""

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fresh seed, which a failure shows; HALFULP_SEED repeats one."""
    seed = int(os.environ.get("HALFULP_SEED", np.random.SeedSequence().generate_state(1)[0]))
    print(f"HALFULP_SEED={seed}")
    return np.random.default_rng(seed)


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
