"""The CPU plugin's attribute that keeps a node's f64, i64 and u64 from being narrowed.

Python can't make it, but reading a model that carries it gives one to copy.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import openvino as ov

from halfulp.integrations.openvino.operators import HalfulpPower, tensor_of

_KEY = "DisablePrecisionConversion_0"

_CARRIER = """<net name="carrier" version="11">
  <layers>
    <layer id="0" name="x" type="Parameter" version="opset1">
      <data shape="1" element_type="f32"/>
      <rt_info><attribute name="DisablePrecisionConversion" version="0" value="dynamic:dynamic"/></rt_info>
      <output><port id="0" precision="FP32"><dim>1</dim></port></output>
    </layer>
    <layer id="1" name="y" type="Result" version="opset1">
      <input><port id="0" precision="FP32"><dim>1</dim></port></input>
    </layer>
  </layers>
  <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges>
</net>"""


@cache
def attribute() -> Any:
    """Return the plugin's attribute, or None where this version has none."""
    (x,) = ov.Core().read_model(_CARRIER.encode(), b"").get_parameters()
    info = x.get_rt_info()
    return info[_KEY] if _KEY in list(info.keys()) else None


def mark(node: Any) -> None:
    """Have a node keep its types; nothing where this version can't."""
    if attribute() is not None:
        node.set_rt_info(attribute(), _KEY)


def constant_node(values: Any, name: str) -> Any:
    """Return a Constant of these values, marked."""
    constant = ov.opset13.constant(tensor_of(values))
    constant.set_friendly_name(name)
    mark(constant)
    return constant


@cache
def keeps_wide_types() -> bool:
    """Return whether the installed version keeps f64, i64 and u64: whether some values pass it bit for bit."""
    numbers = (np.array([1e300, 1 / 3, -np.inf]), np.array([2**63 - 1, -5, 1 << 40]))
    for values in (*numbers, np.array([2**64 - 1, 5, 1 << 40], np.uint64)):
        ones = constant_node(np.ones_like(values), "one")
        x = ov.opset13.parameter([3], values.dtype)
        kind = tensor_of(values).element_type.get_type_name()
        power = HalfulpPower([x.output(0), ones.output(0)], operands=f"{kind},{kind}", auto_broadcast="numpy")
        mark(x)
        mark(power)
        try:
            (got,) = ov.Core().compile_model(ov.Model([power], [x]), "CPU")([values]).values()
        except RuntimeError:  # the operator's own: what arrived was narrower
            return False
        if got.tobytes() != values.tobytes():
            return False
    return True
