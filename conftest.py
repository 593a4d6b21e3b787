"""Which files pytest imports while it collects, and what every test starts from."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from halfulp import _core

# Torch's idle threads sleep instead of spinning, as those of ONNX Runtime do below.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A test runner makes the command from its functions for each call: half the time of a call of halfulp.
with suppress(ImportError):  # tests/core needs no command line
    import typer.testing

    typer.testing._get_command = cache(typer.main.get_command)

# tests/integrations/test_examples.py runs their examples: their frameworks take seconds to import.
collect_ignore_glob = [f"src/halfulp/integrations/{name}*" for name in ("dask", "jax", "openvino", "torch")]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that have neither tests nor examples: collection would import them for nothing.

    A package's own file stays, because pytest would import a second time what it imports.
    """
    name = collection_path.name
    if not name.endswith(".py") or name.startswith("test_") or name in ("conftest.py", "__init__.py"):
        return None
    return True if ">>>" not in collection_path.read_text("utf-8") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that compile something, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/house/", "tests/cuda/")))


MODULES = pytest.StashKey[int]()
SPINNING = "session.intra_op.allow_spinning"


def freeze(config: pytest.Config) -> None:
    """Keep what stays anyway out of each later garbage collection.

    There are hundreds, and frameworks make millions of objects while they are imported.
    """
    gc.collect()
    gc.freeze()
    config.stash[MODULES] = len(sys.modules)


def do_not_spin() -> None:
    """Let the idle threads of ONNX Runtime's sessions sleep: they would take the cores of the other workers.

    A session of a small model takes a third of the time then.
    """
    ort = sys.modules.get("onnxruntime")
    if not hasattr(ort, "InferenceSession") or hasattr(ort.InferenceSession, SPINNING):
        return
    start = ort.InferenceSession.__init__

    def started(self: Any, path_or_bytes: Any, sess_options: Any = None, *others: Any, **named: Any) -> None:
        options = sess_options or ort.SessionOptions()
        try:
            options.get_session_config_entry(SPINNING)
        except RuntimeError:
            options.add_session_config_entry(SPINNING, "0")
        start(self, path_or_bytes, options, *others, **named)

    setattr(ort.InferenceSession, SPINNING, False)
    ort.InferenceSession.__init__ = started


def pytest_collection_finish(session: pytest.Session) -> None:
    """Freeze what was imported for collection."""
    freeze(session.config)
    do_not_spin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Freeze a framework that a test has imported, or only then a part of it."""
    yield
    if len(sys.modules) > item.config.stash[MODULES] + 50:
        freeze(item.config)
        do_not_spin()


@pytest.fixture(autouse=True)
def default_floating_point_environment() -> Iterator[None]:
    """Runtimes that a test loads may leave the thread flushing subnormals to zero; the next test must not."""
    with _core.DefaultEnvironment():
        yield


@pytest.fixture(autouse=True)
def default_jax_types() -> Iterator[None]:
    """What compares JAX with others lets it have types of 64 bits; the next test finds it as it is imported."""
    yield
    if (jax := sys.modules.get("jax")) is not None:
        jax.config.update("jax_enable_x64", False)
