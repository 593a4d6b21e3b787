"""The examples of modules that plug into a framework, which is imported here and not while pytest collects."""

import doctest
import importlib

import pytest

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS  # as in pyproject.toml


@pytest.mark.parametrize("framework", ["dask", "jax", "openvino", "torch"])
def test_examples(framework):
    pytest.importorskip(framework)
    module = importlib.import_module(f"halfulp.integrations.{framework}")
    done = doctest.testmod(module, optionflags=FLAGS)
    assert done.attempted > 0
    assert done.failed == 0
