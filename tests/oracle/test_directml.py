"""DirectML's rows, the core against the oracle: ScaleBias (N6) and negative bases (N9)."""

import functools

import numpy as np
import pytest
from tests.oracle.compare import assert_same_bits
from tests.oracle.grids import Part, pow_grid, random_bits, specials

import halfulp as hu
from halfulp import reference
from halfulp.conformance.cases.values import outer

TYPES = ["float32", "float16", "int32", "int16", "int8", "uint32", "uint16", "uint8"]
SCALE_BIASES = [
    (1.0, 0.0),
    (0.1, -0.7),
    (-2.0, 0.5),
    (3e38, 1.0),
    (1e-30, 1e-30),
    (0.0, -0.0),
    (1.0, float("nan")),
]


@pytest.mark.parametrize("y_name", TYPES)
@pytest.mark.parametrize("x_name", TYPES)
def test_pow(x_name, y_name, rng):
    """As they are, and scaled: test_pow.py has the same grids of all types where ONNX's rules hold."""
    op = hu.op("directml.ELEMENT_WISE_POW-3_0")
    every = pow_grid(x_name, y_name, rng)
    some = [
        Part(part.name, *sample(part, rng, len(part.x) if part.name == "specials" else 400)) for part in every
    ]
    assert_same_bits(some, op, functools.partial(reference.pow, directml=True))
    few = [SCALE_BIASES[i] for i in rng.choice(len(SCALE_BIASES), 3, replace=False)]
    for scale_bias in [*few, (float(rng.normal()), float(rng.normal()))]:
        parts = [Part(f"{scale_bias} {part.name}", *sample(part, rng, 40)) for part in every]
        assert_same_bits(
            parts,
            functools.partial(op, ScaleBias=scale_bias),
            functools.partial(reference.pow, directml=True, scale_bias=scale_bias),
        )


@pytest.mark.parametrize("scale_bias", [None, *SCALE_BIASES])
@pytest.mark.parametrize("name", ["float32", "float16"])
def test_constant_pow(name, scale_bias, rng):
    x = np.concatenate([specials(name), random_bits(name, rng, 100)])
    op = hu.op("directml.ELEMENT_WISE_CONSTANT_POW-3_0")
    exponents = specials("float32") if scale_bias is None else rng.choice(specials("float32"), 10)
    for exponent in np.concatenate([exponents, random_bits("float32", rng, 10)]):
        part = Part(f"exponent {exponent}", *outer(x, exponent[None]))
        assert_same_bits(
            [part],
            lambda x, y: op(x, Exponent=float(y[0]), ScaleBias=scale_bias),
            functools.partial(reference.pow, directml=True, scale_bias=scale_bias),
        )


def sample(part, rng, most):
    """At most some pairs of a part."""
    index = rng.choice(len(part.x), min(most, len(part.x)), replace=False)
    return part.x[index], part.y[index]
