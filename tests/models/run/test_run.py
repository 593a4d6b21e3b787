"""Running models: which version of an operator runs, wherever it stands, and what a run refuses."""

import warnings
import weakref

import ml_dtypes
import numpy as np
import onnx
import pytest
from tests.models.onnx_models import parsed, run, run_with_report, single

import halfulp as hu
from halfulp.errors import ModelError, UnsupportedError
from halfulp.models.onnx import load

NEWEST = onnx.defs.onnx_opset_version()


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("opset", [7, 9, 12, 13, 15, 16, NEWEST])
def test_pow_of_every_opset(opset):
    x = np.linspace(0, 3, 12, dtype=np.float32).reshape(3, 4)
    y = np.array([[-1], [0.5], [3]], np.float32)
    model = single("Pow", opset, {"x": ("float32", [3, 4]), "y": ("float32", [3, 1])})
    out = run(model, {"x": x, "y": y})
    assert list(out) == ["out"]
    assert same_bits(out["out"], hu.pow(x, y))


@pytest.mark.parametrize("opset", [1, 6])
def test_pow_1_with_axis(opset):
    # The shapes also fit without the axis: ignoring it would be silently wrong.
    x = np.linspace(0, 3, 27, dtype=np.float32).reshape(3, 3, 3)
    y = np.array([1, 2, 3], np.float32)
    inputs = {"x": ("float32", [3, 3, 3]), "y": ("float32", [3])}
    for axis in (0, 1, 2):
        out = run(single("Pow", opset, inputs, axis=axis, broadcast=1), {"x": x, "y": y})["out"]
        assert same_bits(out, hu.pow(x, y.reshape([3 if d == axis else 1 for d in range(3)])))
    with pytest.raises(ModelError) as caught:
        run(single("Pow", opset, inputs), {"x": x, "y": y})
    assert caught.value.clause.startswith("onnx.Pow-1.C")
    assert str(caught.value).startswith("<ModelProto>: node 'node' (Pow): ")


@pytest.mark.parametrize("opset", [1, 6, 7, 9, 16, NEWEST])
def test_prelu_of_every_opset(opset):
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)
    # Before version 7 a 1-d slope is per channel; since then it is aligned with the last dim.
    slope = np.arange(1, 4 if opset < 7 else 5, dtype=np.float32)
    model = single("PRelu", opset, {"x": ("float32", [2, 3, 4]), "slope": ("float32", [slope.size])})
    want = hu.prelu(x, slope.reshape(-1, 1) if opset < 7 else slope)
    assert same_bits(run(model, {"x": x, "slope": slope})["out"], want)


def test_subgraphs_use_the_outer_opset_and_see_outer_names():
    model = parsed("""6: g (bool c, float[2,3] x, float[2] y) => (float[2,3] z) {
            z = If (c) <then_branch = t () => (float[2,3] a) { a = Pow <axis = 0, broadcast = 1> (x, y) },
                        else_branch = e () => (float[2,3] b) { b = PRelu (x, x) }>
        }""")
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    y = np.array([2, 3], np.float32)
    out, report = run_with_report(model, {"c": np.array(True), "x": x, "y": y})
    assert same_bits(out["z"], hu.pow(x, y[:, None]))
    assert {row.operator: row.engine for row in report.nodes} == {
        "onnx.Pow-1": "halfulp",
        "onnx.If-1": "onnx reference",
    }
    out = run(model, {"c": np.array(False), "x": x, "y": y})
    assert same_bits(out["z"], hu.prelu(x, x))


def test_an_input_that_a_call_leaves_out_is_absent():
    model = parsed("""<ir_version: 10, opset_import: ["": 15, "own": 1]>
        g (float[N] x) => (float[N] z) { z = own.limit (x) }
        <domain: "own", opset_import: ["": 13]>
        limit (a, low) => (c) { c = Clip (a, low) }""")
    np.testing.assert_array_equal(run(model, {"x": np.array([-1.0], np.float32)})["z"], [-1])


def test_foreign_operators_beside_ours():
    model = parsed("15: g (float[N] x) => (float[N] z) { y = Abs (x) p = Pow (y, y) z = Sqrt (p) }")
    x = np.array([-2, 3], np.float32)
    out, report = run_with_report(model, {"x": x})
    assert same_bits(out["z"], np.sqrt(hu.pow(abs(x), abs(x))))
    assert [(row.label, row.engine) for row in report.nodes] == [
        ("#0 (Abs)", "onnx reference"),
        ("#1 (Pow)", "halfulp"),
        ("#2 (Sqrt)", "onnx reference"),
    ]
    assert report.share == report.nodes[1].seconds / report.seconds < 1
    assert report.nodes[1].inputs == ("float32[2]", "float32[2]")


def test_a_function_with_the_body_of_prelu():
    body = hu.op("onnx.PRelu-16").function_body()
    model = parsed("""<ir_version: 10, opset_import: ["": 16, "own": 1]>
        g (float16[N] x, float16[1] s) => (float16[N] y) { y = own.PRelu (x, s) }""")
    body.domain = "own"
    model.functions.append(body)
    x = np.array([-1.1, -0.0, 0, np.nan, 5, -np.inf], np.float16)
    s = np.array([0.3], np.float16)
    out, report = run_with_report(model, {"x": x, "s": s})
    assert same_bits(out["y"], hu.prelu(x, s))
    assert report.nodes[-1].engine == "halfulp"


def test_an_operator_before_its_opset():
    """A tool wrote it; ONNX Runtime refuses it as well."""
    gelu = '<ir_version: 8, opset_import: ["": {}]> g (float[4] x) => (float[4] y) {{ e = Gelu(x)  y = Pow(e, e) }}'
    x = {"x": np.array([1, 2, 3, 0.5], np.float32)}
    old, new = (run(load(parsed(gelu.format(opset)), keep_unknown=True), x)["y"] for opset in (17, 20))
    assert same_bits(old, new)


def test_an_output_is_nobody_elses_memory():
    model = load(
        parsed("""15:
            g (float[N] x) => (float[N] a, float[N] b, float[1] w, float c, float[1] r) <float[1] w = {1}> {
            a = Identity (x)  b = Identity (x)
            c = Constant <value = float {1}> ()  one = Constant <value_ints = [1]> ()
            r = Reshape (c, one)
        }""")
    )
    x = np.zeros(3, np.float32)
    for _ in range(2):
        out = run(model, {"x": x})
        np.testing.assert_array_equal(x, 0)
        assert [value.ravel()[0] for value in out.values()] == [0, 0, 1, 1, 1]
        for value in out.values():
            value += 1
        np.testing.assert_array_equal(out["a"], 1)


@pytest.mark.parametrize(
    ("kind", "last", "most"),
    [
        pytest.param("float32", "Pow", 40, id="node by node, two values at a time"),
        pytest.param("float16", "Abs", 90, id="in ONNX Runtime, which looks for lost results in another run"),
    ],
)
def test_values_are_dropped_after_their_last_reader(kind, last, most, python):
    """A chain of 20 powers of 8 MiB."""
    if last == "Abs":
        pytest.importorskip("onnxruntime")
    script = f"""
import numpy as np
import onnx
from onnx import helper
import halfulp as hu
nodes = [helper.make_node("Pow", [f"v{{i}}", "e"], [f"v{{i + 1}}"]) for i in range(20)]
nodes.append(helper.make_node("{last}", ["v20", "e"][: {1 + (last == "Pow")}], ["v21"]))
x = np.ones((8 << 20) // np.{kind}().itemsize, np.{kind})
info = lambda name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), [None])
graph = helper.make_graph(nodes, "g", [info("v0"), info("e")], [info("v21")])
model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 15)])
small = x[:1].copy()
hu.run(model, {{"v0": small, "e": small}})
def peak():  # ru_maxrss would start at the peak of pytest's process
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
hu.run(model, {{"v0": x, "e": small}})
print((peak() - before) >> 10)
"""
    assert int(python(script)) < most


def test_inputs_are_not_kept():
    x = np.zeros(3, np.float32)
    model = single("Pow", 15, {"x": ("float32", [3]), "y": ("float32", [3])})
    run(model, {"x": x, "y": x})
    gone = weakref.ref(x)
    del x
    assert gone() is None


# --- what contradicts the model's declaration ---------------------------------------------------

POW = single("Pow", 15, {"x": ("float32", ["N", 2]), "y": ("float32", ["N", 1])})


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (
            {"x": np.ones((3, 2), np.float32)},
            r"no value is given for its input 'y': pass {'y': array}\s+expected: float32.*\s+got: x",
        ),
        ({"x": np.ones((3, 2), np.float64), "y": np.ones((3, 1), np.float32)}, "input 'x' contradicts"),
        ({"x": np.ones((3, 3), np.float32), "y": np.ones((3, 1), np.float32)}, "input 'x' contradicts"),
        ({"x": np.ones(2, np.float32), "y": np.ones((3, 1), np.float32)}, "input 'x' contradicts"),
        (
            {"x": np.ones((3, 2), np.float32), "y": np.ones((1, 1), np.float32)},
            "the dim 'N' another size than 'x'",
        ),
        ({"x": [[1, 2], [3]], "y": [[1]]}, "input 'x': not an array: setting an array"),
        (
            {"x": np.ma.masked_array([[1.0, 2.0]], [[True, False]]), "y": [[1]]},
            r"input 'x': a masked array: its mask would be lost; pass x\.filled",
        ),
        ({"x": None, "y": [[1]]}, "input 'x' contradicts"),
        ({"z": 1}, "has no input 'z'"),
    ],
)
def test_inputs_that_contradict_the_model(inputs, words):
    with pytest.raises(ModelError, match=words):
        run(POW, inputs)


@pytest.mark.parametrize("node", ["", "Reshape", "Unsqueeze"])
def test_more_dims_than_numpy_has(node):
    """In an input that is made up, also with sizes to be found, or in what a node makes."""
    if not node:
        models = [
            single("Pow", 15, {"x": ("float32", [first] + [1] * 64), "y": ("float32", [])})
            for first in (1, "N")
        ]
        words = r"input 'x' has too many dims\s+expected: at most 64\s+got: 65"
    else:
        axes = [0] if node == "Unsqueeze" else [1] * 65
        rank = 64 if node == "Unsqueeze" else 1
        models = [
            parsed(f"""15: g (float[{",".join("1" * rank)}] x) => (float z)
                <int64[{len(axes)}] axes = {{{",".join(map(str, axes))}}}> {{ r = {node}(x, axes)  z = Pow(r, r) }}""")
        ]
        words = rf"\({node}\): .* maximum supported dimension for an ndarray is (currently )?64, found 65"
    for model in models:
        with pytest.raises(ModelError, match=words):
            hu.run(model, "random", engine="halfulp")
        if not node:
            verification = hu.convert(model, opset=12, verify=True).verification
            assert str(verification) == "not verified: input 'x' has too many dims"


def test_python_numbers_take_the_declared_type():
    out = run(POW, {"x": [[2, 3]], "y": [[0.5]]})["out"]
    assert same_bits(out, hu.pow(np.array([[2, 3]], np.float32), np.array([[0.5]], np.float32)))
    whole = single("Pow", 15, {"x": ("int32", []), "y": ("int8", [])}, ("int32", []))
    assert run(whole, {"x": 3, "y": 4})["out"] == 81
    with pytest.raises(ModelError, match="numbers fed as input 'y' don't fit"):
        run(whole, {"x": 3, "y": 400})
    with pytest.raises(ModelError, match="numbers fed as input 'x' don't fit"):
        run(whole, {"x": 3.5, "y": 4})


@pytest.mark.parametrize(
    ("kind", "number"),
    [("int64", 2**63), ("int64", 2.0**63), ("uint64", -1), ("uint64", 2.0**64), ("uint8", -1), ("bool", 2)],
)
def test_python_numbers_that_only_seem_to_fit(kind, number):
    """Converted, they are other numbers; NumPy's comparison converts one more time, and finds them equal."""
    copy = single("Identity", 16, {"x": (kind, [])}, (kind, []))
    with pytest.raises(ModelError, match="numbers fed as input 'x' don't fit"):
        run(copy, {"x": number})


def test_a_python_number_beyond_a_float_type_is_infinite():
    copy = single("Identity", 16, {"x": ("float16", [])}, ("float16", []))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(copy, {"x": 70000})["out"] == np.inf


@pytest.mark.parametrize("fed", [[None], [2**64], [object()]])
def test_objects_are_no_numbers(fed):
    copy = single("Identity", 16, {"x": ("int64", ["N"])}, ("int64", ["N"]))
    with pytest.raises(ModelError, match="input 'x' is fed Python objects"):
        run(copy, {"x": fed})


def test_byte_order_is_not_a_type():
    x = np.array([[2.0, 3.0]], ">f4")
    assert run(POW, {"x": x, "y": np.array([[2.0]], ">f4")})["out"].tolist() == [[4, 9]]


@pytest.mark.parametrize(
    ("declared", "got"),
    [(("float16", None), "float16"), (("float32", [5]), "float32[5]"), (("float32", [2, 1]), "[2, 1]")],
)
def test_a_declared_output_that_contradicts_the_operator(declared, got):
    model = single("Pow", 15, {"x": ("float32", [2]), "y": ("float32", [2])}, declared)
    with pytest.raises(ModelError, match=r"node 'node' \(Pow\): its output 'out' contradicts") as caught:
        run(model, {"x": np.ones(2, np.float32), "y": np.ones(2, np.float32)})
    assert got in str(caught.value)


def test_the_way_out_of_a_declared_type_is_told():
    model = parsed("""15:
        g (float[N] x) => (float[N] z) <double[N] y> { y = Abs (x)  w = Cast <to = 1> (y)  z = Pow (w, w) }""")
    with pytest.raises(ModelError, match=r"its output 'y' contradicts (.*\n)*  run: hu.repair\(model\)"):
        run(model, {"x": np.ones(1, np.float32)})


def test_errors_inside_subgraphs_and_functions_name_the_way():
    model = parsed("""<ir_version: 10, opset_import: ["": 15, "own": 1]>
        g (float[N] x, float[M] s) => (float[N] z) { z = own.f (x, s) }
        <domain: "own", opset_import: ["": 16]> f (a, b) => (c) { c = PRelu (a, b) }""")
    with pytest.raises(ModelError) as caught:
        run(model, {"x": np.ones(2, np.float32), "s": np.ones(3, np.float32)})
    assert caught.value.node == "f.#0 (PRelu)"
    assert caught.value.clause.startswith("onnx.PRelu-16.C")


def test_what_the_onnx_package_does_not_evaluate():
    model = parsed("10: g (float[N] x) => (int32[N, 1] z) { z = Multinomial (x) }")
    with pytest.raises(UnsupportedError, match=r"(?s)node #0 \(Multinomial\).*the engine onnxruntime"):
        run(model, {"x": np.ones(1, np.float32)})


def test_what_the_onnx_package_fails_on_is_an_error_of_the_model():
    model = parsed("15: g (float[N] x, float[M] y) => (float[K] z) { z = MatMul (x, y) }")
    with pytest.raises(ModelError, match=r"node #0 \(MatMul\): the onnx package fails"):
        run(model, {"x": np.ones(2, np.float32), "y": np.ones(3, np.float32)})


def test_a_result_larger_than_memory_is_refused_at_once():
    model = single("Pow", 15, {"x": ("float32", ["N", 1]), "y": ("float32", [1, "M"])})
    x = np.broadcast_to(np.float32(1), (1 << 22, 1))
    with pytest.raises(ModelError, match="its output would not fit into this computer's memory"):
        run(model, {"x": x, "y": x.reshape(1, -1)})
    for text in ("z = Mul (x, y)", "c = Less (x, y)  z = Where (c, x, y)"):
        model = parsed(f"16: g (float[N, 1] x, float[1, N] y) => (float[N, N] z) {{ {text} }}")
        with pytest.raises(ModelError, match="would not fit"):
            run(model, {"x": x, "y": x.reshape(1, -1)})


def test_a_kernel_that_onnx_runtime_lacks_comes_with_the_command_that_helps(tmp_path):
    pytest.importorskip("onnxruntime")
    file, converted = tmp_path / "net.onnx", tmp_path / "converted.onnx"
    onnx.save(parsed("15: g (bfloat16[2] x) => (bfloat16[2] y) { y = Tanh (x) }"), file)
    x = np.ones(2, ml_dtypes.bfloat16)
    with pytest.raises(
        hu.UnsupportedError, match=r"bfloat16 has few kernels: halfulp convert .* --float32 all"
    ):
        hu.run(file, {"x": x}, engine="onnxruntime")
    hu.convert(file, converted, float32="all")
    assert hu.run(converted, {"x": x}, engine="onnxruntime")["y"].dtype == x.dtype
