"""The seed of the random parts: always the same, unless HALFULP_SEED is a number, or "fresh"."""

import os
import secrets

import pytest


@pytest.fixture(scope="session")
def seed() -> int:
    given = os.environ.get("HALFULP_SEED") or "1"
    return secrets.randbits(32) if given == "fresh" else int(given)
