"""Each library that is installed computes what it is asked for, and says so where it can't."""

import ml_dtypes
import numpy as np
import pytest

import halfulp as hu
from halfulp.benchmark.comparison import exactness
from side_by_side import peers, vectors
from side_by_side.comparison import Comparison
from side_by_side.peers import (
    LIBRARIES,
    Case,
    RefusalError,
    constant_power,
    environment,
    power,
    prelu,
    prepare,
)

# What a library makes of its own threads, allocators and signals is not our business here.
pytestmark = pytest.mark.filterwarnings("ignore")

# Those that the quick rows have; make exhaustive takes all.
QUICK = ("halfulp", "numpy", "torch", "onnxruntime")
library = pytest.mark.parametrize(
    "library",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.exhaustive]) for name in LIBRARIES],
)

CASES = {
    "float32": power("float32", "float32", 300),
    "float64": power("float64", "float64", 300),
    "float16": power("float16", "float16", 300),
    "bfloat16": power("bfloat16", "bfloat16", 300),
    "int32": power("int32", "int32", 300),
    "mixed": power("float32", "int32", 300),
    "constant": constant_power("float32", -2, 300),
    "constant float": constant_power("float32", 2.5, 300),
    "per channel": prelu("float32", (2, 3, 4, 5), (3, 1, 1)),
    "channels last": prelu("float32", (2, 4, 5, 3), (3,)),
    "elementwise": prelu("float32", (2, 3, 4, 5), (2, 3, 4, 5)),
    "small": Case("pow", np.full(4, 2.0, np.float32), np.full(4, 3.0, np.float32), returned=True),
}


@library
@pytest.mark.parametrize("name", CASES)
def test_a_library_gives_nearly_the_right_results(library, name):
    if library != "halfulp":
        pytest.importorskip(library)
    case = CASES[name]
    right = (hu.pow if case.operator == "pow" else hu.prelu)(case.x, case.y)
    try:
        prepared = prepare(library, case, 1)
    except RefusalError:
        if (library, name) in MUST or library in ("halfulp", "numpy"):
            raise
        pytest.skip("refused")
    result = prepared.to_numpy(prepared.call())
    found = exactness(result, right)
    if name in ("per channel", "channels last", "elementwise"):
        np.testing.assert_array_equal(result, right)  # equal zeros of either sign
    elif case.x.dtype.kind == "i":
        small = np.abs(case.x.astype(float) ** case.y) < 2**31  # beyond, they differ
        np.testing.assert_allclose(result[small], right[small], rtol=1e-6)  # OpenVINO's go through floats
    elif (library, name) == ("openvino", "float64"):
        np.testing.assert_allclose(result, right, rtol=1e-6)  # computed in float32
    else:
        assert found.farthest <= 8, found


MUST = {
    ("torch", "float32"), ("torch", "bfloat16"), ("torch", "per channel"), ("torch", "channels last"),
    ("torch", "small"), ("onnxruntime", "float32"), ("onnxruntime", "constant"), ("onnxruntime", "per channel"),
    ("onnxruntime", "channels last"), ("openvino", "bfloat16"), ("openvino", "mixed"), ("openvino", "constant"),
    ("openvino", "per channel"), ("openvino", "channels last"), ("numexpr", "float32"), ("numexpr", "constant"),
    ("jax", "float64"), ("jax", "bfloat16"), ("numba", "float32"), ("numba", "constant float"),
}  # fmt: skip


@pytest.fixture
def refusing_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(case: Case, threads: int) -> None:
        raise RuntimeError("no such type\nand a long story")

    monkeypatch.setitem(peers.PREPARE, "numpy", refuse)


@pytest.mark.usefixtures("refusing_numpy")
def test_a_refusal_is_what_the_library_says_in_one_line():
    with pytest.raises(RefusalError, match=r"^no such type$"):
        prepare("numpy", CASES["float32"], 1)


def test_a_result_of_another_type_is_no_answer():
    case = Case("prelu", np.ones(3, ml_dtypes.bfloat16), np.ones(3, np.float32))
    with pytest.raises(RefusalError, match="the result is float32"):
        prepare("numpy", case, 1)


def test_a_contest_counts_and_times_all_that_take_part():
    called = []
    case = power("float32", "float32", 2000)
    comparison = Comparison(case, ["numpy"], 1, {"beside": lambda: called.append(1)})
    times = comparison.measure(0, least=2)
    assert set(times) == {"halfulp", "numpy", "beside"}
    assert all(len(taken) == 2 and min(taken) > 0 for taken in times.values())
    assert called
    with np.errstate(all="ignore"):
        wrong = np.count_nonzero(np.power(case.x, case.y) != hu.pow(case.x, case.y))
    assert comparison.exactness["numpy"].misrounded == wrong
    assert comparison.digest != Comparison(power("float32", "float32", 1999), [], 1).digest


def test_environment():
    assert environment(3)["OMP_NUM_THREADS"] == environment(3)["HALFULP_NUM_THREADS"] == "3"
    assert "HALFULP_ISA" not in environment(1)
    assert environment(1, "avx2")["HALFULP_ISA"] == "avx2"
    assert not {"AVX2", "X86_V3"} & set(environment(1, "avx2")["NPY_DISABLE_CPU_FEATURES"].split())


@pytest.mark.parametrize("name", vectors.VECTORS)
def test_a_library_for_c(name):
    if reason := vectors.absent().get(name):
        pytest.skip(reason)
    for type_name in ("float64", "float32"):
        case = power(type_name, type_name, 301)  # the last vector is not full
        prepared = prepare(name, case, 1)
        assert exactness(prepared.to_numpy(prepared.call()), hu.pow(case.x, case.y)).farthest <= 4
    for refused in (CASES["mixed"], CASES["constant"], CASES["float16"], CASES["elementwise"]):
        with pytest.raises(RefusalError):
            prepare(name, refused, 1)
