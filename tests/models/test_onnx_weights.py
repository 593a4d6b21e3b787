"""Models whose weights are in a file that all sessions map."""

import numpy as np
import onnx
import pytest
from onnx import ModelProto, external_data_helper, numpy_helper, parser

from halfulp.models.onnx import Onnx, parse
from halfulp.models.onnx.tensors import TensorReader, _is_mapped

LARGE = np.arange(1000, dtype=np.float32)


def network() -> ModelProto:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 15], producer_name: "me">
        g (float[N, 1000] x) => (float[N, 1000] z) <float two = {2}> { y = Mul (x, w)  z = Pow (y, two) }"""
    )
    model.graph.initializer.append(numpy_helper.from_array(LARGE, "w"))
    return model


@pytest.mark.skipif(not _is_mapped(), reason="ONNX Runtime before 1.21 does not find them")
def test_large_weights_are_in_the_file_and_the_rest_is_equal():
    model = network()
    before = model.SerializeToString(deterministic=True)
    with Onnx(model, "m.onnx").mapped() as mapped:
        light, file, folder = mapped.proto, mapped.file, mapped.folder
        assert folder is not None
        assert (file, light.producer_name, light.graph.node) == ("m.onnx", "me", model.graph.node)
        assert [tensor.HasField("raw_data") for tensor in light.graph.initializer] == [False, False]
        assert light.ByteSize() < 1000
        np.testing.assert_array_equal(TensorReader(folder).read(light.graph.initializer[1], "w"), LARGE)
        onnx.load_external_data_for_model(light, str(folder))
        values = [numpy_helper.to_array(tensor).tolist() for tensor in light.graph.initializer]
        assert values == [2.0, LARGE.tolist()]
    assert not folder.exists()
    assert model.SerializeToString(deterministic=True) == before


def test_external_data_is_found_beside_it(tmp_path):
    model = network()
    external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=100)
    onnx.save(model, tmp_path / "m.onnx")
    with parse(tmp_path / "m.onnx").mapped() as light:
        array = TensorReader(light.folder).read(light.proto.graph.initializer[1], "w")
        np.testing.assert_array_equal(array, LARGE)
