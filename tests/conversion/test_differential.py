"""A change that says nothing about differing keeps every bit: in ONNX Runtime, and in the onnx package's evaluator.

Neither halfulp's kernels nor its verification take part. Each output has the bits of the model before, or those of the
exact power: a runtime's own power need not be exact.
"""

import itertools
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import halfulp as hu
from halfulp.errors import HalfulpError

Arrays = list[np.ndarray[Any, Any]]

KINDS = ("float16", "float32", "float64", "int32", "int64")
EXPONENTS = (0, 1, 2, 3, 4, 7, 17, 0.5, 1.5, -0.5, -1, -2)
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (1, 1, 1), (3, 1), (4, 3, 16))
TARGETS = ("basic", "onnxruntime", "openvino", "tensorrt", "iree", "directml", "cuda")
OPTIONS: list[dict[str, Any]] = [
    *({"opset": opset} for opset in (7, 8, 11, 12, 22)),
    *({"target": target} for target in TARGETS),
]
POWERS = [{"pow": "expand"}, {"pow": "logarithms"}, {"pow": "fold"}, *OPTIONS]
PRELUS = [{"prelu": "expand"}, {"prelu": "relu"}, {"prelu": "fold"}, *OPTIONS]
SPECIAL = (
    *(-np.inf, -3, -2, -1, -0.5, -1e-4, -0.0, 0.0, 1e-4, 0.25, 1, 1.5, 2, 3, 100, 70000),
    np.inf,
    np.nan,
)


def named(option: dict[str, Any]) -> str:
    return "-".join(map(str, *option.items()))


def dtype_of(kind: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, kind, kind))


@cache
def special(kind: str) -> np.ndarray[Any, Any]:
    """Return the numbers around which powers and slopes are odd, and random ones."""
    with np.errstate(all="ignore"):
        numbers = np.concatenate([SPECIAL, np.random.default_rng(1).normal(size=192 - len(SPECIAL)) * 10])
        if "int" in kind:
            ends = np.iinfo(kind)
            numbers = np.clip(np.nan_to_num(numbers * 1000), float(ends.min), float(ends.max) / 2)
        return numbers.astype(dtype_of(kind)).reshape(4, 3, 16)


def model_of(op_type: str, kinds: tuple[str, str], constants: Arrays, opset: int) -> ModelProto:
    """Return a model with a node for each constant second operand."""
    enums = [helper.np_dtype_to_tensor_dtype(dtype_of(kind)) for kind in kinds]
    x, *results = (
        helper.make_tensor_value_info(name, enums[0], [4, 3, 16])
        for name in ("x", *(f"y{number}" for number in range(len(constants))))
    )
    nodes, weights = [], []
    for number, constant in enumerate(constants):
        nodes.append(helper.make_node(op_type, ["x", f"c{number}"], [f"y{number}"], f"n{number}"))
        weights.append(numpy_helper.from_array(constant.astype(dtype_of(kinds[1])), f"c{number}"))
    graph = helper.make_graph(nodes, "g", [x], results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def in_onnxruntime(model: ModelProto, x: np.ndarray[Any, Any]) -> Arrays | None:
    """Return the outputs without optimizations, or None where the runtime lacks a kernel."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, {"x": x}))
    except Exception:
        return None


def in_evaluator(model: ModelProto, x: np.ndarray[Any, Any]) -> Arrays | None:
    """Return the outputs of the onnx package's evaluator, whose kernels before opset 8 are of float32 alone."""
    if model.opset_import[0].version < 8 and x.dtype != np.float32:
        return None
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model).run(None, {"x": x}))


def exact(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return powers rounded once: an integer wraps for an integer exponent, and saturates for another."""
    with np.errstate(all="ignore"):
        if x.dtype.kind == "f":
            return (x.astype(np.longdouble) ** y.astype(np.longdouble)).astype(x.dtype)
        if y.dtype.kind == "i":
            return x ** np.abs(y).astype(x.dtype)
        ends = np.iinfo(x.dtype)
        powers = np.nan_to_num(np.trunc(x.astype(np.longdouble) ** y.astype(np.longdouble)))
        return np.clip(powers, ends.min, ends.max).astype(x.dtype)


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Tell whether two arrays have the same type, shape and bits; one NaN is as good as another."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = [np.frombuffer(each.tobytes(), f"u{each.itemsize}") for each in (a, b)]
    return bool(((bits[0] == bits[1]) | ((a != a) & (b != b)).ravel()).all())


def nearly_same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Tell whether two arrays are as near as the kernels of a runtime for several types or opsets."""
    if a.dtype != b.dtype or a.dtype.kind in "iu":
        return same(a, b)
    return np.allclose(
        *(each.astype(np.float64) for each in (a, b)), rtol=3 * ml_dtypes.finfo(a.dtype).eps, equal_nan=True
    )


def differs_only_as_said(model: ModelProto, kind: str, option: dict[str, Any], powers: Arrays | None) -> int:
    """Convert a model, compare the outputs that no change says to differ, and return their number."""
    conversion = hu.convert(model, **option)
    onnx.checker.check_model(conversion.model, full_check=True)
    said = {
        change.node.partition("'")[2].partition("'")[0] for change in conversion.changes if change.differs
    }
    operators = {name: node.op_type for node in conversion.model.graph.node for name in node.output}
    x = special(kind)
    compared = 0
    for engine in (in_onnxruntime, in_evaluator):
        before, after = engine(model, x), engine(conversion.model, x)
        if after is None:
            continue
        for number, found in enumerate(after):
            if f"n{number}" not in said and (before is not None or powers is not None):
                compared += 1
                right = [*([before[number]] if before else []), *([powers[number]] if powers else [])]
                lines = [str(change) for change in conversion.changes]
                stays = operators[f"y{number}"] == model.graph.node[number].op_type
                compare = nearly_same if stays else same
                assert any(compare(found, each) for each in right), (engine.__name__, number, lines)
    return compared


def differ_only_as_said(
    op_type: str, kinds: tuple[str, str], constants: Arrays, option: dict[str, Any], opset: int
) -> int:
    """Try all constants in one model, or in two where one of them is refused."""
    x = special(kinds[0])
    powers = [exact(x, each.astype(kinds[1])) for each in constants] if op_type == "Pow" else None
    try:
        return differs_only_as_said(model_of(op_type, kinds, constants, opset), kinds[0], option, powers)
    except HalfulpError:
        if len(constants) == 1:
            return 0
        half = len(constants) // 2
        parts = constants[:half], constants[half:]
        return sum(differ_only_as_said(op_type, kinds, part, option, opset) for part in parts)


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("option", POWERS, ids=named)
def test_powers(option, every):
    """Of every second pair of types, which are others for the next option, and of all in make exhaustive."""
    compared = 0
    for kinds in [*itertools.product(KINDS, KINDS)][POWERS.index(option) % every :: every]:
        exponents = [e for e in EXPONENTS if "float" in kinds[1] or (e == int(e) and e >= 0)]
        constants = [np.full(shape, e) for e, shape in zip(exponents, itertools.cycle(SHAPES), strict=False)]
        constants.append(np.resize(exponents, (3, 1)))
        compared += differ_only_as_said("Pow", kinds, constants, option, 15)
    assert compared > 50 / every


@pytest.mark.newer
@pytest.mark.parametrize("option", PRELUS, ids=named)
def test_prelus(option):
    compared = 0
    for kind in (*KINDS, "uint32", "bfloat16"):
        constants = [np.array(each) for each in (1, [2], [[1], [2], [3]], [[0], [1], [0]], np.arange(16))]
        if "float" in kind:
            constants += [
                np.array(each) for each in (0.5, [-0.25], [[0.5], [0.25], [-2]], np.linspace(-1, 1, 16))
            ]
        compared += differ_only_as_said("PRelu", (kind, kind), constants, option, 16)
    assert compared > 10
