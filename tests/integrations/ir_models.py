"""A small IR file, and files that OpenVINO writes."""

from pathlib import Path
from typing import Any

import numpy as np

SMALL = """<?xml version="1.0"?>
<net name="small" version="11">
  <layers>
    <layer id="0" name="data" type="Parameter" version="opset1">
      <data shape="?,3" element_type="f32" />
      <output><port id="0" precision="FP32" names="x,input"><dim>-1</dim><dim>3</dim></port></output>
    </layer>
    <layer id="1" name="exponent" type="Const" version="opset1">
      <data element_type="f32" shape="3" offset="4" size="12" />
      <output><port id="0" precision="FP32"><dim>3</dim></port></output>
    </layer>
    <layer id="2" name="power" type="Power" version="opset1">
      <data auto_broadcast="numpy" />
      <input>
        <port id="0" precision="FP32"><dim>-1</dim><dim>3</dim></port>
        <port id="1" precision="FP32"><dim>3</dim></port>
      </input>
      <output><port id="2" precision="FP32" names="y"><dim>-1</dim><dim>3</dim></port></output>
    </layer>
    <layer id="3" name="result" type="Result" version="opset1" output_names="y">
      <input><port id="0" precision="FP32"><dim>-1</dim><dim>3</dim></port></input>
    </layer>
  </layers>
  <edges>
    <edge from-layer="0" from-port="0" to-layer="2" to-port="0" />
    <edge from-layer="1" from-port="0" to-layer="2" to-port="1" />
    <edge from-layer="2" from-port="2" to-layer="3" to-port="0" />
  </edges>
  <rt_info />
</net>
"""
WEIGHTS = np.array([9, 1, 2, 0.5], np.float32).tobytes()


def written(folder: Path, text: str | bytes = SMALL, weights: bytes = WEIGHTS) -> Path:
    """Return the path of an IR file with this text."""
    (folder / "net.xml").write_bytes(text.encode() if isinstance(text, str) else text)
    (folder / "net.bin").write_bytes(weights)
    return folder / "net.xml"


def saved(folder: Path, results: list[Any], parameters: list[Any]) -> Path:
    """Return the path of a file that OpenVINO writes."""
    import openvino as ov

    ov.save_model(ov.Model(results, parameters), folder / "g.xml", compress_to_fp16=False)
    return folder / "g.xml"
