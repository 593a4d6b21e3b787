"""The seed of the random parts: fresh in every run; HALFULP_SEED brings a failure back."""

import os
import secrets

import pytest


@pytest.fixture(scope="session")
def seed() -> int:
    return int(os.environ.get("HALFULP_SEED") or secrets.randbits(32))
