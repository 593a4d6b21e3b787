"""What pytest leaves out where a package that halfulp plugs into is not installed, and what every test starts from."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from halfulp import _core

# Their examples run, and so their modules are imported.
collect_ignore_glob = [
    f"src/halfulp/integrations/{name}*"
    for name in ("dask", "jax", "openvino", "torch")
    if find_spec(name) is None
] + [
    f"src/halfulp/conformance/runner/targets/{name}*.py"
    for name in ("jax", "onnxruntime", "openvino", "torch")
    if find_spec(name) is None
]


@pytest.fixture(autouse=True)
def default_floating_point_environment() -> Iterator[None]:
    """Runtimes that a test loads may leave the thread flushing subnormals to zero; the next test must not."""
    with _core.DefaultEnvironment():
        yield
