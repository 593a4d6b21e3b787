"""halfulp as an ``onnx.backend.base.Backend``, for tools that use that interface.

>>> import numpy as np
>>> from onnx import parser
>>> import halfulp.backend
>>> model = parser.parse_model('''<ir_version: 8, opset_import: ["": 15]>
...     g (float[N] x, int8[N] y) => (float[N] z) { z = Pow(x, y) }''')
>>> halfulp.backend.run_model(model, [np.array([3], np.float32), np.array([-1], np.int8)])
Outputs(z=array([0.33333334], dtype=float32))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from halfulp.errors import HalfulpError
from halfulp.models.graph import Model
from halfulp.models.onnx import load
from halfulp.models.run.api import run

__all__ = [
    "HalfulpBackend",
    "PreparedModel",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]


class PreparedModel(BackendRep):
    """A loaded model, ready to run any number of times."""

    def __init__(self, model: Model) -> None:
        self._model = model
        names = [value.name for value in model.graph.outputs]
        self._outputs = namedtupledict("Outputs", names)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs, in the model's order and by name.

        Args:
            inputs: by name, or in the order of the model's inputs that have no initializer (of all
                of them where there are as many); a single array where there is one input.

        Raises:
            ModelError, UnsupportedError: as :func:`halfulp.models.run.api.run`.
        """
        outputs = run(self._model, self._by_name(inputs))
        return self._outputs(*outputs.values())

    def _by_name(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        names = [value.name for value in self._model.graph.inputs]
        if len(given) != len(names):
            names = [name for name in names if name not in self._model.graph.constants]
        if len(given) > len(names):
            raise HalfulpError("more inputs than the model has", expected=len(names), got=len(given))
        return dict(zip(names, given, strict=False))


class HalfulpBackend(Backend):
    """Runs ONNX models with halfulp's operators, on the CPU."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Tell whether the model loads: whether it is valid and its operators are known."""
        try:
            load(model)
        except HalfulpError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Load a model; raises ModelError, UnsupportedError, and HalfulpError for another device."""
        if not cls.supports_device(device):
            raise HalfulpError("halfulp runs on the CPU", got=device)
        return PreparedModel(load(model))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Evaluate one node, in the newest opset or in ``opset_version``.

        Args:
            node: of ONNX's own domain, or of one whose version 1 the onnx package knows.
            inputs: in the node's order, or by name.
            outputs_info: ignored, because the inputs determine it.
        """
        names = list(dict.fromkeys(filter(None, node.input)))
        infos = [onnx.helper.make_empty_tensor_value_info(name) for name in names]
        results = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", infos, results)
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version() if not node.domain else 1)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)])
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tell whether the device is the CPU."""
        return device.split(":")[0] == "CPU"


# The module itself is the backend too, as with other runtimes.
is_compatible = HalfulpBackend.is_compatible
prepare = HalfulpBackend.prepare
run_model = HalfulpBackend.run_model
run_node = HalfulpBackend.run_node
supports_device = HalfulpBackend.supports_device
