"""Fixtures of CUDA's tests."""

import pytest
from tests.cuda.build import Driver

_driver: list[Driver] = []


@pytest.fixture
def driver() -> Driver:
    """The fake driver, with an empty log."""
    if not _driver:
        _driver.append(Driver())
    _driver[0].log()
    return _driver[0]
