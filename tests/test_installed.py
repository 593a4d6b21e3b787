"""What is installed: versions, and modules that can be imported."""

from __future__ import annotations

import sys

import pytest

from halfulp.installed import has_module, version_of


def test_versions() -> None:
    assert version_of("numpy")
    assert version_of("no-such-package") is None


def test_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_module("numpy")
    assert not has_module("no_such_module")
    monkeypatch.setitem(sys.modules, "no_such_module", None)
    assert not has_module("no_such_module")
