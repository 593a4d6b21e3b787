"""OpenVINO on the CPU, from a graph of its own operators Power-1 and PReLU-1."""

from __future__ import annotations

from typing import Any

import openvino as ov
from openvino import opset1

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.runner.targets.openvino import Target as FromOnnx
from halfulp.integrations.openvino.operators import tensor_of

_NODES = {"openvino.Power-1": opset1.power, "openvino.PReLU-1": opset1.prelu}


class Target(FromOnnx):
    """Builds, compiles and infers a graph of one node."""

    def prepare(self, case: Case) -> Any:
        """Return the case: a graph that is not allowed is refused while it is built."""
        return case

    def run(self, prepared: Any) -> list[Array]:
        """Return the outputs."""
        case: Case = prepared
        fed, operands, parameters = [], [], []
        for index, array in enumerate(case.inputs):
            tensor = tensor_of(array)
            if index in case.constants:
                operands.append(ov.op.Constant(tensor))
            else:
                parameter = ov.op.Parameter(tensor.element_type, ov.PartialShape(list(array.shape)))
                fed.append(array)
                operands.append(parameter)
                parameters.append(parameter)
        node = _NODES[case.operator](*operands, **case.attributes)
        return self.infer(ov.Model([node], parameters), fed)
