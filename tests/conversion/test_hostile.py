"""Broken models, converted, repaired, audited: an error of ours, or a right answer, and nothing else."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from tests.fuzzing.mutators import proto
from tests.golden import models

import halfulp as hu
from halfulp.conversion.passes import refusal

NETWORK = """<ir_version: 9, opset_import: ["": 15, "mine": 1]>
    net (float[N, 3, 4] x, int8[3, 1] y, float[4] s, bool c) => (float[N, 3, 4] z) <float[4] w = {1, 2, 0.5, -1}> {
        a = mine.f (x, y)
        b = Pow (a, w)
        two = Constant <value_int = 2> ()
        d = Pow (b, two)
        r = If (c) <
            then_branch = yes () => (float[N, 3, 4] k) { k = PRelu (d, s) },
            else_branch = no () => (float[N, 3, 4] n) { n = Softmax (d) }>
        z = Mul (r, w)
    }
    <domain: "mine", opset_import: ["": 15]> f (b, e) => (r) { r = Pow (b, e) }"""
PLAIN = """<ir_version: 8, opset_import: ["": 16]>
    net (float[2, 3] x, int32[2, 3] k) => (float[1, 2, 3] z) <float[3] s = {1, 2, 3}, int64[1] axes = {0}> {
        e = Cast <to = 1> (k)
        b = Less (x, e)
        c = Where (b, x, e)
        p = PRelu (c, s)
        q = Pow (p, k)
        z = Unsqueeze (q, axes)
    }"""
OLD = """<ir_version: 3, opset_import: ["": 6]>
    g (float[2, 3, 3] x, float[3] y) => (float[2, 3, 3] z) {
        p = PRelu (x, y)  z = Pow <axis = 1, broadcast = 1> (p, y)
    }"""
NORM = """<ir_version: 7, opset_import: ["": 13]>
    g (float16[2, 8] x) => (float16[2, 8] y) <float two = {2}, double eps = {0.1}, float16 h = {14336}> {
        m = ReduceMean<axes = [-1]> (x)  d = Sub (x, m)  s = Pow (d, two)  v = ReduceMean<axes = [-1]> (s)
        a = Add (v, eps)  r = Pow (a, h)  z = Div (d, r)  y = Own (z)
    }"""
FORMS = Path(__file__).parent / "golden/forms.txt"
MODELS = [*map(parser.parse_model, (NETWORK, PLAIN, OLD, NORM)), *models(FORMS)]
pytestmark = pytest.mark.filterwarnings("ignore::halfulp.HalfulpWarning")
SEEDS = [model.SerializeToString() for model in MODELS]
WAYS: list[dict[str, Any]] = [
    *({"opset": opset} for opset in (5, 6, 11, 13, onnx.defs.onnx_opset_version())),
    *({"target": target} for target in ("onnxruntime", "openvino", "directml", "tensorrt")),
    {"to": "openvino"},
    *({"prelu": how} for how in ("expand", "fold")),
    {"pow": "logarithms"},
    {"float32": "norms", "opset": 9},
]


def mutated(rng: random.Random) -> bytes:
    """Return one of the models with a few bytes changed, or a few fields of its messages."""
    data = rng.choice(SEEDS)
    if rng.random() < 0.6:
        for _ in range(rng.choice([1, 1, 2, 4])):
            with suppress(ValueError):  # a text that is no Unicode
                data = proto(ModelProto(), data, rng)
        return data
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        place = rng.randrange(len(changed))
        changed[place] = rng.choice([rng.randrange(256), 0, 1, 255, changed[place] ^ 1])
    return bytes(changed)


def convert(way: dict[str, Any], data: bytes) -> None:
    after = hu.convert(data, **way)
    if isinstance(after.model, onnx.ModelProto) and not any("checker" in each.what for each in after.changes):
        assert refusal(after.model) is None  # the onnx package's checker, without unknown operators


VERBS: dict[str, Callable[[bytes], Any]] = {
    **{str(way): partial(convert, way) for way in WAYS},
    "repair": hu.repair,
    "by channel": partial(hu.repair, slopes="channel"),
    "by the last dim": partial(hu.repair, slopes="last"),
    "audit": partial(hu.audit, targets=("onnxruntime", "openvino")),
    "audit with data": partial(hu.audit, targets=("openvino",), samples=1),
}


def is_read(data: bytes, verb: str) -> bool:
    """Convert, repair or audit a model; tell whether there was nothing to say against it."""
    try:
        print(VERBS[verb](data), file=StringIO())
    except hu.HalfulpError:
        return False
    return True


@pytest.mark.newer  # onnx 1.19 crashes where X of a Conv has a lower rank than its kernel
@pytest.mark.parametrize("verb", VERBS)
def test_mutated_models(verb):
    rng = random.Random(verb)
    assert {is_read(mutated(rng), verb) for _ in range(150)} == {True, False}


def test_a_name_that_is_no_unicode_is_refused_before_it_is_shown():
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 16]>
        g (float[4, 3] x, float[M, 3] abcd) => (float[4, 3] y) { y = PRelu (x, abcd) }""")
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = -1
    with pytest.raises(hu.ModelError, match="a name is not UTF-8"):
        hu.repair(model.SerializeToString().replace(b"abcd", b"ab\xffd"))


@pytest.mark.exhaustive
def test_mutated_models_for_minutes():
    rng = random.Random()
    seed = rng.randrange(1 << 32)
    print("seed", seed)
    rng.seed(seed)
    end = time.monotonic() + 180
    while time.monotonic() < end:
        is_read(mutated(rng), rng.choice([*VERBS]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"opset": "15"}, "opset must be an integer"),
        ({"opset": 15.0}, "opset must be an integer"),
        ({"opset": True}, "opset must be an integer"),
        ({"opset": np.True_}, "opset must be an integer"),
        ({"dims": {"N": True}}, "the size of dim 'N' must be an integer >= 0"),
        ({"dims": {"N": 2.5}}, "the size of dim 'N' must be an integer >= 0"),
        ({"dims": {"N": "3"}}, "the size of dim 'N' must be an integer >= 0"),
        ({"opset": -1}, "no such opset"),
        ({"target": "tensorrtt"}, r"no target tensorrtt; did you mean tensorrt\?"),
        ({"to": "openvinoo"}, "no such format"),
        ({"to": 3}, "no such format"),
        ({"to": ["onnx"]}, "no such format"),
        ({"target": ["onnxruntime"]}, "no target"),
        ({"expand": ["Gelu"]}, "expand takes names of operators in one text"),
        ({"expand": 3}, "expand takes names of operators in one text"),
        ({"prelu": ["expand"]}, r"no way .* to write PRelu; did you mean expand\?"),
        ({"pow": "unroll"}, "no way unroll to write Pow; there are "),
        ({"expand": "Pow"}, "'Pow' can't be written in other operators"),
    ],
)
def test_arguments_of_a_wrong_kind(arguments, words):
    with pytest.raises(hu.HalfulpError, match=words):
        hu.convert(parser.parse_model(PLAIN), **arguments)
