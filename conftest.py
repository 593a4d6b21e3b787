"""What pytest leaves out where a package that halfulp plugs into is not installed."""

from importlib.util import find_spec

# Their examples run, and so their modules are imported.
collect_ignore_glob = [
    f"src/halfulp/integrations/{name}*.py"
    for name in ("dask", "jax", "openvino", "torch")
    if find_spec(name) is None
]
