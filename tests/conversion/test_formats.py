"""Between ONNX, OpenVINO IR and DxDispatch JSON, there and back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from tests.models.onnx_models import parsed, single
from tests.models.openvino_models import compressed, reread

import halfulp as hu
from halfulp.conversion import Conversion, Format
from halfulp.conversion.verify import nothing_told
from halfulp.models import load, openvino
from halfulp.models.directml import dxdispatch
from halfulp.specs.unspecified import integral
from halfulp.types import TYPES

FORMATS = get_args(Format)
SUFFIX = {"onnx": ".onnx", "openvino": ".xml", "directml": ".json"}


def converted(model: Any, to: Format, folder: Path, *, exact: bool = True) -> tuple[Conversion, Path]:
    """Convert a model into a file; its bits must be those of the model, where no change says otherwise."""
    path = folder / f"to_{to}{SUFFIX[to]}"
    conversion = hu.convert(model, path, verify=True)
    found = conversion.verification
    assert found is not None
    if exact or not any(change.differs for change in conversion.changes):
        assert found.same, (found, conversion.changes)
    if to == "onnx":
        onnx.checker.check_model(onnx.load(path), full_check=True)
    return conversion, path


def refused(model: Any, to: Format, *words: str) -> None:
    """See that a conversion is refused, in these words."""
    with pytest.raises(hu.HalfulpError) as error:
        hu.convert(model, to=to)
    for word in words:
        assert word in str(error.value)


NETWORK = """<ir_version: 8, opset_import: ["": 16]>
    net (float[2, 3, 4] x, float[3, 1] s) => (float[2, 3, 4] z) <float[4] w = {1, 2, 3, -1}> {
        y = Pow (x, w)
        z = PRelu (y, s)
    }"""


@pytest.mark.parametrize("second", FORMATS)
@pytest.mark.parametrize("first", FORMATS)
def test_a_network_through_every_pair_and_back(first: Format, second: Format, tmp_path: Path) -> None:
    model: Any = parsed(NETWORK)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    feeds = {"x": x, "s": np.array([[-1], [0.25], [3]], np.float32)}
    expected = hu.run(model, feeds)["z"].tobytes()
    for step in (first, second, "onnx"):
        _, model = converted(model, step, tmp_path)
        shapes = {
            value.name: value.shape for value in load(model).inputs
        }  # DirectML's are those of its tensors
        got = hu.run(model, {name: array.reshape(shapes[name]) for name, array in feeds.items()})
        assert got["z"].tobytes() == expected


PLUMBING = """<ir_version: 8, opset_import: ["": 18]>
    net (float[N, 3] x, int64[N, 3] k, float[3] s) => (float[N, 3, 1] z) <float[1] w = {0.5}, int64[1] two = {2}> {
        a = Identity (x)
        zero = CastLike (w, a)
        b = Less (a, zero)
        c = Mul (a, s)
        d = Where (b, c, a)
        e = Cast <to = 1> (k)
        f = Add (d, e)
        g = PRelu (f, s)
        h = Pow (g, two)
        z = Unsqueeze (h, two)
    }"""


def test_the_plumbing_goes_to_openvino_and_back(tmp_path: Path) -> None:
    there, path = converted(parsed(PLUMBING), "openvino", tmp_path)
    kinds = [node.type for node in there.model.graph.nodes]  # type: ignore[union-attr]
    assert kinds == [
        *(
            "Reshape",
            "Convert",
            "Less",
            "Multiply",
            "Select",
            "Convert",
            "Add",
            "PReLU",
            "Power",
            "Unsqueeze",
        ),
    ]
    assert "OpenVINO has no names for dims: N become ?" in str(there.changes[0])
    back, _ = converted(path, "onnx", tmp_path)
    assert isinstance(back.model, onnx.ModelProto)


def test_openvino_reads_what_is_written(tmp_path: Path) -> None:
    runtime = pytest.importorskip("openvino")
    for number, model in enumerate((parsed(NETWORK), parsed(PLUMBING))):
        _, path = converted(model, "openvino", tmp_path)
        read = runtime.Core().read_model(path)
        assert [value.get_any_name() for value in read.inputs] == [i.name for i in model.graph.input], number


def test_an_exponent_stored_in_float16_is_a_constant(tmp_path: Path) -> None:
    model = reread(compressed(2.5), tmp_path)
    assert [node.type for node in model.graph.nodes] == ["Convert", "Power"]
    _, path = converted(tmp_path / "g.xml", "directml", tmp_path, exact=False)
    (dispatchable,) = dxdispatch.load(path).dispatchables.values()
    assert dispatchable.type == "ELEMENT_WISE_CONSTANT_POW"
    written = (tmp_path / "g.xml").read_bytes()
    openvino.save(model, tmp_path / "again.xml")
    assert (tmp_path / "again.xml").read_bytes() == written


def test_what_has_no_place_is_said(tmp_path: Path) -> None:
    model = parsed(
        NETWORK.replace('"": 16', '"": 16, "other": 2').replace(
            "<ir_version: 8", '<ir_version: 8, producer_name: "me"'
        )
    )
    model.doc_string = "about"
    model.metadata_props.add(key="owner", value="me")
    model.graph.node[0].name = "power"
    conversion, _ = converted(model, "openvino", tmp_path)
    said = "\n".join(map(str, conversion.changes))
    for words in (
        "producer_name",
        "doc_string",
        "metadata 'owner'",
        "import of 'other'",
        "name of 1 node (power)",
    ):
        assert f"{words} is not carried over" in said


def test_functions_are_inlined(tmp_path: Path) -> None:
    model = parsed("""<ir_version: 9, opset_import: ["": 15, "mine": 1]>
        net (float[3] x) => (float[3] z) { z = mine.f (x) }
        <domain: "mine", opset_import: ["": 15]> f (b) => (r) { r = Pow (b, b) }""")
    conversion, _ = converted(model, "openvino", tmp_path)
    assert "its functions are inlined" in str(conversion.changes[0])


def test_old_opsets_come_along(tmp_path: Path) -> None:
    model = parsed("""<ir_version: 3, opset_import: ["": 6]>
        g (float[2, 3, 4] x, float[3] y) => (float[2, 3, 4] z) {
            p = PRelu (x, y)  z = Pow<axis=1, broadcast=1>(p, y)
        }""")
    converted(model, "openvino", tmp_path)
    converted(model, "directml", tmp_path, exact=False)


def test_other_operators_are_named() -> None:
    model = parsed("""<ir_version: 8, opset_import: ["": 16]>
        net (float[3] x) => (float[3] z) { a = Sin (x)  b = Cos (a)  z = Pow (a, b) }""")
    refused(
        model,
        "directml",
        "counterpart elsewhere; ONNX Runtime's DirectML provider takes",
        "got: #0 (Sin), #1 (Cos)",
    )


def test_other_layers_are_named_with_the_way_out(tmp_path: Path) -> None:
    _, path = converted(parsed(PLUMBING), "openvino", tmp_path)
    path.write_text(path.read_text().replace('type="Less"', 'type="LessOther"'))
    refused(path, "onnx", "(LessOther)", "convert from the ONNX file that the IR was made of", "Power, PReLU")


# --- types ----------------------------------------------------------------------------------------

BASES = ("float16", "float32", "float64", "bfloat16", "int32", "int64")
EXPONENTS = (*BASES, "int8", "int16", "uint8", "uint16", "uint32", "uint64")


@pytest.mark.parametrize("x", BASES)
def test_every_pair_of_types_to_openvino(x: str, tmp_path: Path) -> None:
    """Exactly, or with a word on how results can differ; the target openvino says the same."""
    exact = []
    for y in EXPONENTS:
        model = single("Pow", 15, {"x": (x, [40]), "y": (y, [40])}, (x, [40]))
        conversion, _ = converted(model, "openvino", tmp_path, exact=False)
        told = sorted(change.differs for change in conversion.changes if change.differs)
        if not [differs for differs in told if "computes" not in differs]:
            exact.append(y)
            continue
        there = [change.differs for change in hu.convert(model, target="openvino").changes]
        assert told == sorted(filter(None, there))
    integers = {
        "float16": ["int8", "uint8"],
        "float32": ["float16", "bfloat16", "int8", "int16", "uint8", "uint16"],
        "float64": ["float16", "float32", "bfloat16", "int32", "int8", "int16", "uint8", "uint16", "uint32"],
        "bfloat16": ["int8", "uint8"],
        "int32": ["int8", "int16", "uint8", "uint16", "uint32", "uint64"],
        "int64": ["int32", "int8", "int16", "uint8", "uint16", "uint32", "uint64"],
    }
    assert sorted(exact) == sorted([x, *integers[x]])


def layers(kind: str, operator: str, shapes: tuple[list[int], list[int]]) -> bytes:
    """Return an IR of one operator."""
    spelled = TYPES[kind].openvino
    first, second = (",".join(map(str, shape)) for shape in shapes)
    return f"""<net name="n" version="11"><layers>
        <layer id="0" name="x" type="Parameter" version="opset1"><data shape="{first}" element_type="{spelled}"/>
            <output><port id="0" names="x"/></output></layer>
        <layer id="1" name="y" type="Parameter" version="opset1"><data shape="{second}" element_type="{spelled}"/>
            <output><port id="0" names="y"/></output></layer>
        <layer id="2" name="op" type="{operator}" version="opset1">
            <input><port id="0"/><port id="1"/></input><output><port id="2" names="out"/></output></layer>
        <layer id="3" name="r" type="Result" version="opset1"><input><port id="0"/></input></layer></layers>
      <edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
        <edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
        <edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>""".encode()


@pytest.mark.parametrize("kind", [name for name, row in TYPES.items() if row.openvino and row.onnx])
def test_every_type_of_power_to_onnx(kind: str, tmp_path: Path) -> None:
    model = layers(kind, "Power", ([60], [60]))
    if TYPES[kind].bits < 8 or "float8" in kind:
        refused(model, "onnx", "'op' (Power): no exact form: Pow of ONNX takes no", kind)
    else:
        converted(model, "onnx", tmp_path)


@pytest.mark.parametrize(
    "kind", [name for name, row in TYPES.items() if row.openvino and row.onnx and row.kind == "float"]
)
def test_every_type_of_prelu_to_onnx(kind: str, tmp_path: Path) -> None:
    converted(layers(kind, "PReLU", ([3, 5, 5], [5])), "onnx", tmp_path)


def test_zero_to_a_negative_power_in_a_wider_type(tmp_path: Path) -> None:
    """In the narrow type that is its largest value, of which the wider type's low bits know nothing."""
    _, path = converted(layers("int8", "Power", ([3], [3])), "onnx", tmp_path)
    feeds = {"x": np.array([0, 0, -2], np.int8), "y": np.array([-1, 3, 7], np.int8)}
    assert hu.run(path, feeds)["out"].tolist() == [127, 0, -128]


@pytest.mark.parametrize("opset", [9, 16])
@pytest.mark.parametrize("kind", ["int32", "uint64"])
def test_an_integer_prelu_becomes_its_body_in_openvino(kind: str, opset: int, tmp_path: Path) -> None:
    model = single("PRelu", opset, {"x": (kind, [2, 3, 4]), "s": (kind, [3, 1])}, (kind, [2, 3, 4]))
    there, _ = converted(model, "openvino", tmp_path)
    assert any("becomes its function body: PReLU takes no" in str(change) for change in there.changes)


@pytest.mark.parametrize(
    ("x", "slope", "size"),
    [
        ([2, 3, 3], [3], 3),
        ([2, 4, 3], [3], 3),
        ([3, 3], [3], 3),
        ([2, 3, 4], [], None),
        ([2, 3, 4], [1], None),
    ],
)
def test_a_slope_along_the_last_dim_stays_there(
    x: list[int], slope: list[int], size: int | None, tmp_path: Path
) -> None:
    model = single("PRelu", 16, {"x": ("float32", x), "s": ("float32", slope)}, ("float32", x))
    _, path = converted(model, "openvino", tmp_path)
    converted(path, "onnx", tmp_path)


def test_slopes_that_may_be_per_channel() -> None:
    model = layers("float32", "PReLU", ([2, 3, 4], [3]))
    conversion = hu.convert(model, to="onnx", verify=True)
    assert "the slope, per channel, gets 1 more dims of 1" in str(conversion.changes[0])
    assert conversion.verification is not None
    assert conversion.verification.same
    refused(model.replace(b'"2,3,4"', b'"2,?,4"'), "onnx", "'op' (PReLU)", "whether the slope is per channel")


def test_a_cast_that_saturates_has_no_form_in_openvino() -> None:
    model = parsed("""<ir_version: 9, opset_import: ["": 19]>
        g (float[3] x) => (float8e4m3fn[3] z) { z = Cast <to = 17> (x) }""")
    refused(model, "openvino", "#0 (Cast): no exact form: OpenVINO's Convert does not saturate")


# --- DirectML -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exponent", "operator"),
    [
        (np.array(3, np.float32), "ELEMENT_WISE_CONSTANT_POW"),
        (np.array([0.1], np.float64), None),
        (np.array([2, 3, 4], np.int32), "ELEMENT_WISE_POW"),
        (np.array([3], np.int64), "ELEMENT_WISE_CONSTANT_POW"),
    ],
)
def test_constant_exponents(exponent: np.ndarray[Any, Any], operator: str | None, tmp_path: Path) -> None:
    model = single("Pow", 15, {"x": ("float32", [2, 3]), "w": ("float32", None)}, ("float32", [2, 3]))
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(exponent, "w"))
    if operator is None:
        refused(model, "directml", "'node' (Pow)", "float64")
        return
    conversion, _ = converted(model, "directml", tmp_path)
    (dispatchable,) = conversion.model.dispatchables.values()  # type: ignore[union-attr]
    assert dispatchable.type == operator


def test_a_resource_that_is_broadcast_has_strides_of_0(tmp_path: Path) -> None:
    conversion, path = converted(parsed(NETWORK), "directml", tmp_path)
    program = conversion.model
    assert isinstance(program, dxdispatch.Program)
    prelu = program.dispatchables["prelu1"].desc
    assert prelu is not None
    assert prelu.SlopeTensor.Strides == (0, 1, 0)  # type: ignore[union-attr]
    assert [resource.name for resource in program.resources.values()] == ["x", "s", "w", "y", "z"]
    assert dxdispatch.load(path).resources.keys() == program.resources.keys()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            single("Pow", 15, {"x": ("float64", [3]), "y": ("float64", [3])}, ("float64", [3])),
            "must have a type that DataType allows: float64",
        ),
        (
            single("Pow", 15, {"x": ("bfloat16", [3]), "y": ("int8", [3])}, ("bfloat16", [3])),
            "no type bfloat16",
        ),
        (single("Pow", 15, {"x": ("float32", ["N"]), "y": ("float32", ["N"])}), "dims that are not known"),
        (single("Pow", 15, {"x": ("float32", [1] * 9), "y": ("float32", [])}), "at most 8 dims"),
        (
            parsed(
                "<ir_version: 8, opset_import: ['': 16]> g (float[3] x) => (float[3] z) { z = Mul (x, x) }".replace(
                    "'", '"'
                )
            ),
            "mul is not an operator that halfulp writes for DirectML",
        ),
        (
            parsed(
                "<ir_version: 8, opset_import: ['': 16]> g (float[3] x) => (float[3] z) { z = Identity (x) }".replace(
                    "'", '"'
                )
            ),
            "made by no operator of its own",
        ),
    ],
)
def test_what_directml_lacks_is_named(model: onnx.ModelProto, words: str) -> None:
    refused(model, "directml", words)


def program(desc: str) -> bytes:
    """Return a program of one power of four elements."""
    fed = ', "ExponentTensor": "Y"' if "ExponentTensor" in desc else ""
    bindings = f'{{"InputTensor": "X", "OutputTensor": "Z"{fed}}}'
    return f"""{{
      "resources": {{
        "X": {{"initialValuesDataType": "FLOAT32", "initialValues": [4, -9, -1, -2]}},
        "Y": {{"initialValuesDataType": "FLOAT32", "initialValues": [2, 0.5, "inf", -1]}},
        "Z": {{"initialValuesDataType": "FLOAT32", "initialValues": {{"valueCount": 4, "value": 0}}}}}},
      "dispatchables": {{"p": {desc}}},
      "commands": [{{"type": "dispatch", "dispatchable": "p", "bindings": {bindings}}},
        {{"type": "print", "resource": "Z"}}]}}""".encode()


TENSOR = '{"DataType": "FLOAT32", "Sizes": [4]}'
POW = f'"InputTensor": {TENSOR}, "OutputTensor": {TENSOR}'


@pytest.mark.parametrize("to", ["onnx", "openvino"])
@pytest.mark.parametrize(
    "more",
    [
        '"Exponent": 2',
        '"Exponent": 0.5',
        '"Exponent": "inf"',
        '"Exponent": 0.5, "ScaleBias": {"Scale": 2, "Bias": 0.1}',
        '"Exponent": -3, "ScaleBias": {"Scale": 0.3, "Bias": 0}',
    ],
)
def test_a_constant_power_of_directml(more: str, to: Format, tmp_path: Path) -> None:
    desc = f'{{"type": "ELEMENT_WISE_CONSTANT_POW", "desc": {{{POW}, {more}}}}}'
    conversion, path = converted(program(desc), to, tmp_path)
    assert any("command 1, a print, is not carried over" in change.what for change in conversion.changes)
    if to == "onnx":
        assert hu.run(path)["Z"].tobytes() == hu.run(program(desc))["Z"].tobytes()  # the values as defaults


def test_a_power_of_directml_with_a_fed_exponent(tmp_path: Path) -> None:
    desc = f'{{"type": "ELEMENT_WISE_POW", "desc": {{{POW}, "ExponentTensor": {TENSOR}}}}}'
    converted(program(desc), "onnx", tmp_path)
    refused(program(desc), "openvino", "'p'", "no exact form", "convert to .onnx first, and that to .xml")


def test_a_scale_and_a_bias_that_are_rounded_twice() -> None:
    more = '"Exponent": 2, "ScaleBias": {"Scale": 0.3, "Bias": 1}'
    desc = f'{{"type": "ELEMENT_WISE_CONSTANT_POW", "desc": {{{POW}, {more}}}}}'
    refused(
        program(desc), "onnx", "'p' (command 0)", "two roundings differ from one; halfulp run computes it"
    )
    assert hu.run(program(desc))["Z"].dtype == np.float32


def test_in_place_means_another_name(tmp_path: Path) -> None:
    desc = f'{{"type": "ELEMENT_WISE_CONSTANT_POW", "desc": {{{POW}, "Exponent": 2}}}}'
    conversion, path = converted(
        program(desc).replace(b'"OutputTensor": "Z"', b'"OutputTensor": "X"'), "onnx", tmp_path
    )
    assert any("the written value is 'X_out'" in change.what for change in conversion.changes)
    assert list(hu.run(path)) == ["X_out"]


def test_integral_exponents() -> None:
    assert integral(np.array([1, 2], np.int8)).all()
    assert integral(np.array([2.0, 0.5, np.inf, np.nan])).tolist() == [True, False, False, False]


# --- made up --------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> onnx.ModelProto:
    """Return a model of powers, slopes and the plumbing around them, of one type."""
    kind = draw(st.sampled_from(["float32", "float16", "int32", "float64"]))
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    inputs, initializers, nodes = [helper.make_tensor_value_info("v0", number, shape)], [], []
    operators = ["Pow", "PRelu", "Pow", "PRelu", "Mul", "Add", "Identity", "Unsqueeze", "Where"]
    for index in range(draw(st.integers(1, 5))):
        x, out, other = f"v{index}", f"v{index + 1}", f"w{index}"
        operator = draw(st.sampled_from(operators))
        if operator == "Identity":
            nodes.append(helper.make_node(operator, [x], [out]))
            continue
        if operator == "Unsqueeze":
            initializers.append(numpy_helper.from_array(np.array([0], np.int64), other))
            nodes.append(helper.make_node(operator, [x, other], [out]))
            shape = [1, *shape]
            continue
        own = [draw(st.sampled_from([1, dim])) for dim in shape][draw(st.integers(0, len(shape))) :]
        if draw(st.booleans()):
            array = rng.integers(-3, 4, own).astype(kind)
            initializers.append(numpy_helper.from_array(array, other))
        else:
            inputs.append(helper.make_tensor_value_info(other, number, own))
        if operator == "Where":
            nodes.append(helper.make_node("Less", [x, other], [f"c{index}"]))
            nodes.append(helper.make_node("Where", [f"c{index}", x, other], [out]))
        else:
            nodes.append(helper.make_node(operator, [x, other], [out]))
    result = helper.make_tensor_value_info(nodes[-1].output[0], number, shape)
    graph = helper.make_graph(nodes, "g", inputs, [result], initializers)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 16)])
    assume(not nothing_told(hu.run(model, "random").vacuous))  # no verification could say anything of it
    return model


BETWEEN_FORMATS = given(graphs(), st.sampled_from(FORMATS), st.sampled_from(FORMATS))


@settings(max_examples=30)
@BETWEEN_FORMATS
def test_graphs_through_formats(
    tmp_path_factory: pytest.TempPathFactory, model: onnx.ModelProto, first: Format, second: Format
) -> None:
    """The bits stay, or a change says that they may not, or an error says what is missing."""
    through(model, (first, second), tmp_path_factory)


@pytest.mark.exhaustive
@settings(max_examples=1000)
@BETWEEN_FORMATS
def test_many_graphs_through_formats(
    tmp_path_factory: pytest.TempPathFactory, model: onnx.ModelProto, first: Format, second: Format
) -> None:
    through(model, (first, second), tmp_path_factory)


def through(model: onnx.ModelProto, formats: Sequence[Format], places: pytest.TempPathFactory) -> None:
    """Convert a model to some formats and back, with verification."""
    current: Any = model
    for step in (*formats, "onnx"):
        if step == _format(current):
            continue
        with _allowing("DirectML", "no exact form", "OpenVINO") as met:
            conversion = hu.convert(current, to=step, verify=True)
        if met:
            return
        found = conversion.verification
        assert found is not None
        if not any(change.differs for change in conversion.changes):
            assert found.same, found
        current = _stored(conversion, step, places.mktemp("stored"))


def _format(model: Any) -> str:
    suffix = ".onnx" if isinstance(model, onnx.ModelProto) else Path(model).suffix
    return next(name for name, own in SUFFIX.items() if own == suffix)


@contextlib.contextmanager
def _allowing(*words: str) -> Iterator[list[str]]:
    """Let an UnsupportedError pass that says one of these, and tell of it."""
    met: list[str] = []
    try:
        yield met
    except hu.UnsupportedError as error:
        if not any(word in str(error) for word in words):
            raise
        met.append(str(error))


def _stored(conversion: Conversion, step: str, folder: Path) -> Any:
    if step == "onnx":
        return conversion.model
    path = folder / f"model{SUFFIX[step]}"
    conversion.save(path)
    assert (openvino if step == "openvino" else dxdispatch).load(path)
    return path
