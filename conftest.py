"""What pytest leaves out where a package that halfulp plugs into is not installed, and what every test starts from."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from halfulp import _core

# Their examples run, and so their modules are imported.
collect_ignore_glob = [
    f"src/halfulp/integrations/{name}*"
    for name in ("dask", "jax", "openvino", "torch")
    if find_spec(name) is None
]
if find_spec("openvino") is None:
    collect_ignore_glob.append("src/halfulp/conformance/runner/targets/openvino.py")
if find_spec("atheris") is None:
    collect_ignore_glob.append("tests/fuzzing/fuzz.py")


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
