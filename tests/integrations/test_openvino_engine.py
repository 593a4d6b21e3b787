"""IR files of any layers: run, bench and audit compute Power and PReLU by our operators, the rest by OpenVINO's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp as hu
import halfulp.conversion.verify
from halfulp.integrations.ir import load

ov: Any = pytest.importorskip("openvino")
o: Any = pytest.importorskip("openvino.opset13")
plugin = pytest.importorskip("halfulp.integrations.openvino")

W = np.random.default_rng(2).uniform(0.1, 1, (3, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with layers that halfulp lacks, and with one of two outputs, before and after a Power and a PReLU."""
    x = o.parameter([-1, 3], np.float32, name="x")
    product = o.matmul(x, o.constant(W), False, False)
    product.set_friendly_name("product")
    limits = [o.constant(np.float32(limit)) for limit in (0, 4, 0, 4)]
    power = o.power(o.fake_quantize(product, *limits, 200), o.constant(np.float32(2.7)))
    power.set_friendly_name("power")
    parts = o.split(power, o.constant(np.int64(1)), 3)
    parts.set_friendly_name("parts")
    leaky = o.prelu(o.negative(parts.output(1)), o.constant(np.float32([0.1])))
    leaky.set_friendly_name("leaky")
    results = [o.result(leaky, name="last"), o.result(parts.output(2), name="third")]
    file = tmp_path_factory.mktemp("ir") / "net.xml"
    ov.save_model(ov.Model(results, [x]), file, compress_to_fp16=False)
    return file


def expected(x: np.ndarray) -> list[np.ndarray]:
    steps = np.clip(np.rint((x @ W) * np.float32(199 / 4)), 0, 199).astype(np.float32) * np.float32(4 / 199)
    power = hu.pow(steps, np.float32(2.7))
    return [hu.prelu(-power[:, 1:2], np.float32(0.1)), power[:, 2:]]


def test_run(path):
    x = np.random.default_rng(3).uniform(0, 2, (50, 3)).astype(np.float32)
    outputs = hu.run(path, {"x": x})
    for name, right in zip(("last", "third"), expected(x), strict=True):
        np.testing.assert_allclose(outputs[name], right, rtol=1e-6)
    seen = load(path).with_outputs(["power", "last", "parts"])
    _, (run,) = halfulp.conversion.verify.runs(seen)
    values = run({"x": x})
    assert values["parts"].tobytes() == values["power"][:, :1].tobytes()
    assert outputs["third"].tobytes() == values["power"][:, 2:].tobytes()
    assert outputs["last"].tobytes() == values["last"].tobytes()
    assert values["last"].tobytes() == hu.prelu(-values["power"][:, 1:2], np.float32(0.1)).tobytes()
    rows = {row.label: row for row in run.report().nodes}
    power, product = rows["'power' (Power)"], rows["'product' (MatMul)"]
    assert (power.operator, power.engine, product.engine) == ("openvino.Power-1", "halfulp", "openvino")
    assert (power.inputs, power.outputs) == (("float32[?, 3]", "float32[]"), ("float32[?, 3]",))
    with pytest.raises(hu.ModelError, match="input 'x' contradicts the model's declaration"):
        hu.run(path, {"x": x[0]})


def test_a_file_of_a_replaced_model(path, tmp_path):
    x = {"x": np.random.default_rng(3).uniform(0, 2, (50, 3)).astype(np.float32)}
    saved = tmp_path / "replaced.xml"
    ov.save_model(plugin.replace(ov.Core().read_model(path), every_node=True), saved, compress_to_fp16=False)
    assert 'type="HalfulpPower"' in saved.read_text()
    outputs = hu.run(path, x)
    assert {name: values.tobytes() for name, values in hu.run(saved, x).items()} == {
        name: values.tobytes() for name, values in outputs.items()
    }


def test_audit_with_inputs(path):
    with pytest.raises(hu.HalfulpError, match=r"in ONNX models only; halfulp run .*net.xml -i NAME=FILE"):
        hu.audit(path, inputs={"x": np.ones((1, 3), np.float32)})


def test_truth_values(tmp_path):
    b, x = o.parameter([2], np.bool_, name="b"), o.parameter([2], np.float32, name="x")
    ov.save_model(ov.Model([o.logical_not(b), o.power(o.erf(x), x)], [b, x]), tmp_path / "g.xml")
    negated, _ = hu.run(
        tmp_path / "g.xml", {"b": np.array([True, False]), "x": np.ones(2, np.float32)}
    ).values()
    assert negated.tolist() == [False, True]
