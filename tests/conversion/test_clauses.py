"""A Pow or PRelu that breaks a clause of its version is refused on every way, by file, node and clause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app
from halfulp.conversion.editor import holds
from halfulp.errors import ModelError

MODELS = {
    "a shape": (
        16,
        "g (float[2, 3] x, float[5] s) => (float[2, 3] y) { r = Relu(x)  y = PRelu(r, s) }",
        "#1 (PRelu): slope must be unidirectionally broadcastable to X (onnx.PRelu-16.C2)",
    ),
    "a slope for each channel": (
        16,
        "g (float[2, 3, 4] x) => (float[2, 3, 4] y) <float[3] s = {1.0, 2.0, 3.0}> { y = PRelu(x, s) }",
        "#0 (PRelu): slope must be unidirectionally broadcastable to X (onnx.PRelu-16.C2)",
    ),
    "equal shapes": (
        1,
        "g (float[2, 3] x, float[3] s) => (float[2, 3] y) { y = Pow(x, s) }",
        "#0 (Pow): X and Y must have the same shape unless broadcast is 1 (onnx.Pow-1.C5)",
    ),
    "a type": (
        10,
        "g (float[3] x, int32[3] s) => (float[3] y) { y = Pow(x, s) }",
        "#0 (Pow): Y must have a type that T allows (onnx.Pow-7.C3)",
    ),
    "the output": (
        15,
        "g (float[3] x, float[2, 3] s) => (float[3] y) { y = Pow(x, s) }",
        "#0 (Pow): Z is declared otherwise (onnx.Pow-15.C6)",
    ),
    "in a branch": (
        16,
        """g (bool c, float[2, 3] x, float[5] s) => (float[2, 3] y) { y = If (c) <
            then_branch = t () => (float[2, 3] a) { a = Abs(x) },
            else_branch = e () => (float[2, 3] b) { b = PRelu(x, s) }> }""",
        "#0 (If).else_branch.#0 (PRelu): slope must be unidirectionally broadcastable to X (onnx.PRelu-16.C2)",
    ),
}

WAYS: dict[str, list[str]] = {
    "the same opset": ["convert", "m.onnx", "o.onnx"],
    "another opset": ["convert", "m.onnx", "o.onnx", "--opset", "21"],
    "an opset that keeps it": ["convert", "m.onnx", "o.onnx", "--opset", "{opset}"],
    "a target": ["convert", "m.onnx", "o.onnx", "--target", "onnxruntime"],
    "a body": ["convert", "m.onnx", "o.onnx", "--prelu", "expand"],
    "an IR": ["convert", "m.onnx", "o.xml"],
    "run": ["run", "m.onnx"],
    "run in halfulp": ["run", "m.onnx", "--engine", "halfulp"],
    "bench": ["bench", "m.onnx", "--seconds", "0", "--threads", "1"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_refused(name: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "bench":
        pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    opset, text, words = MODELS[name]
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}'), "m.onnx")
    result = CliRunner().invoke(app, [word.replace("{opset}", str(opset)) for word in WAYS[way]])
    assert result.exit_code == 2
    first, *_, last = result.output.splitlines()
    assert first == f"error: m.onnx: node {words}"
    assert last == "  run: halfulp repair m.onnx repaired.onnx"
    assert not list(tmp_path.glob("o.*"))


def test_in_a_function() -> None:
    text = """<ir_version: 8, opset_import: ["": 16, "f": 1]> g (float[2, 3] x, float[5] s) => (float[2, 3] y)
        { y = f.f (x, s) } <domain: "f", opset_import: ["": 16]> f (x, s) => (y) { y = PRelu (x, s) }"""
    with pytest.raises(ModelError, match=r"^<ModelProto>: node f.#0 \(PRelu\): .* \(onnx.PRelu-16.C2\)"):
        hu.convert(parser.parse_model(text), opset=17)


def test_sizes_that_are_open_may_be_right() -> None:
    text = "g (float[N, 3] x, float[M, 3] s) => (float[N, 3] y) { y = PRelu(x, s) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 16]> {text}')
    before = model.SerializeToString()
    found: Any = hu.convert(model, opset=17)
    assert found.changes == ()
    assert model.SerializeToString() == before


NUMPY_TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)] + [
    "float16",
    "float32",
    "float64",
]


@pytest.mark.parametrize("kind", NUMPY_TYPES)
def test_a_type_holds_the_types_that_numpy_casts_safely(kind: str) -> None:
    for other in NUMPY_TYPES:
        if (kind, other[-2:]) != ("float64", "64"):  # NumPy lets float64 round integers of 64 bits
            assert holds(kind, other) == np.can_cast(other, kind), other
    assert holds("float64", "float64")
    assert not holds("float64", "int64")
