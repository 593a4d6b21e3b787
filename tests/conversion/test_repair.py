"""``hu.repair`` from Python. The models that the command repairs are in golden/repair.txt and mended.txt."""

from typing import Any

import onnx
import pytest
from onnx import parser

import halfulp as hu
from halfulp.errors import HalfulpError


def model(more: str = "Identity", opset: int = 9) -> onnx.ModelProto:
    return parser.parse_model(f"""<ir_version: 8, opset_import: ["": {opset}]>
        g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) <float[3] s = {{0.5, -2, 3}}>
        {{ p = PRelu(x, s)  y = {more}(p) }}""")


@pytest.mark.parametrize("wrong", ["height", 1.5, True, None])
def test_choices_of_a_wrong_kind(wrong):
    with pytest.raises(HalfulpError, match="no such dim for slopes"):
        hu.repair(model(), slopes={"#0 (PRelu)": wrong})
    with pytest.raises(HalfulpError, match="the size of dim 'N' must be an integer"):
        hu.repair(model(), dims={"N": 1.5})


def test_external_data_stays_external(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    source = model()
    slope = onnx.numpy_helper.to_array(source.graph.initializer[0])
    source.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(slope, "s"))  # as raw bytes
    onnx.save(source, tmp_path / "in/m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert hu.repair(tmp_path / "in/m.onnx", tmp_path / "out/m.onnx").valid
    assert (tmp_path / "out/w.bin").read_bytes() == (tmp_path / "in/w.bin").read_bytes()
    (repaired,) = onnx.load(tmp_path / "out/m.onnx").graph.initializer
    assert onnx.numpy_helper.to_array(repaired).tolist() == slope.reshape(3, 1, 1).tolist()


# TensorRT's plugins, ONNX Runtime's own LayerNormalization before opset 17, torch's fallback: all in ONNX's own domain.
@pytest.mark.parametrize("own", ["EfficientNMS_TRT", "LayerNormalization<axis = 1>", 'ATen<operator = "f">'])
def test_operators_that_only_a_runtime_knows_are_kept(own, capfd):
    source = model(own, 13)
    found = hu.repair(source)
    assert [change.node for change in found.changes] == ["#0 (PRelu)"]
    assert found.valid
    assert hu.audit(source, targets=()).findings[0].clause == "onnx.PRelu-9.C2"
    older: Any = hu.convert(found.model, opset=12).model
    assert older.graph.node[1] == source.graph.node[1]
    assert capfd.readouterr().out == ""  # the onnx package's checker prints a line about some
