"""The former home of the readers of models: its names are kept for programs that import them."""

import sys

from halfulp.models import directml, graph, onnx, openvino
from halfulp.models.directml import dxdispatch

__all__ = ["directml", "dxdispatch", "graph", "onnx", "openvino"]

# With these, ``from halfulp.frontends.graph import Graph`` gives the class of ``halfulp.models.graph``.
for _name in __all__:
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
