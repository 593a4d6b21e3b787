"""Broken and hostile IR files: each is refused before anything runs, in words that name the place."""

from __future__ import annotations

import contextlib
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.bounded import few_files, little_memory
from tests.models.openvino_models import SMALL, WEIGHTS

import halfulp as hu
from halfulp.models.openvino import load

HUGE = "9" * 19


def refused(text: str | bytes, words: str, *, weights: bytes | None = WEIGHTS) -> hu.HalfulpError:
    """Assert that a file is refused in few bytes of memory, in words that name it."""
    data = text.encode() if isinstance(text, str) else text
    with little_memory(), pytest.raises(hu.HalfulpError) as caught:
        load(data, weights=weights, file="net.xml")
    line = str(caught.value).splitlines()[0]
    assert "net.xml" in line
    assert words in str(caught.value)
    assert line.isprintable()
    return caught.value


def edited(old: str, new: str, count: int = 1) -> str:
    """Return the small file with a text replaced, which must be there."""
    assert old in SMALL
    return SMALL.replace(old, new, count)


ENTITIES = '<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
DECLARATION = '<?xml version="1.0"?>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "an empty file"),
        ("<net", "not well-formed XML"),
        (b"\xff\xfe\x00", "not well-formed XML"),
        ('<?xml version="1.0" encoding="no-such"?><net/>', "net.xml"),
        ("<html/>", "a web page"),
        ("<model/>", "not an OpenVINO IR"),
        ('<net name="n"/>', "has no version"),
        ('<net version="11"/>', "it has no layers"),
        ('<net version="7"><layers/></net>', "10 or 11"),
        ('<net version="-11"><layers/></net>', "version must be a number"),
        (f'<net version="{HUGE}9"><layers/></net>', "version must be a number"),
        (edited(DECLARATION, DECLARATION + ENTITIES), "unsafe or unreadable XML"),
        (edited(DECLARATION, f'{DECLARATION}<!DOCTYPE net SYSTEM "file:///etc/passwd">'), "unsafe"),
        (
            edited(DECLARATION, f'{DECLARATION}<!DOCTYPE net [<!ENTITY e SYSTEM "file:///etc/passwd">]>'),
            "unsafe",
        ),
        (edited("<net", "<net>" * 3000 + "<net"), "not well-formed XML"),
        (edited("<rt_info />", "<a>" * 3000 + "</a>" * 3000), "its elements nest too deep"),
    ],
)
def test_what_is_no_ir(text: str | bytes, words: str) -> None:
    refused(text, words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        # ids, ports and edges
        (
            'id="1" name="exponent"',
            'id="0" name="exponent"',
            "'exponent' (Const): its id 0 is that of 'data'",
        ),
        ('id="1" name="exponent"', 'id="x" name="exponent"', "'exponent' (Const): id must be a number"),
        ('<layer id="1" ', "<layer ", "'exponent' (Const): <layer> has no id"),
        (' type="Power"', "", "it has no type"),
        ('<port id="1"', '<port id="0"', "'power' (Power): it has two input ports 0"),
        ('<port id="0" precision="FP32" names', "<port names", "'data' (Parameter): <port> has no id"),
        ('from-layer="0"', 'from-layer="7"', "an edge joins layer 7, which does not exist"),
        ('from-layer="0"', f'from-layer="{HUGE}"', "from-layer must be a number"),
        ('from-layer="0"', 'from-layer="-1"', "from-layer must be a number"),
        (
            'from-port="2"',
            'from-port="9"',
            "'power' (Power): an edge joins its output port 9, which it lacks",
        ),
        ('to-port="1"', 'to-port="5"', "'power' (Power): an edge joins its input port 5, which it lacks"),
        ('to-port="1"', 'to-port="0"', "'power' (Power): two edges lead to its input port 0"),
        ('to-port="1"', "", "<edge> has no to-port"),
        (
            'from-layer="0" from-port="0"',
            'from-layer="2" from-port="2"',
            "'power' (Power): the graph has a cycle",
        ),
        (
            '<edge from-layer="1" from-port="0" to-layer="2" to-port="1" />',
            "",
            "'power' (Power): no edge leads to its input port 1",
        ),
        (' type="Const"', ' type="Result"', "'exponent' (Result): wrong number of ports"),
        (' type="Power"', ' type="Convert"', "'power' (Convert): unknown attribute of Convert"),
        # shapes
        ('shape="?,3"', 'shape="-2,3"', "'data' (Parameter): invalid dim in its shape"),
        ('shape="?,3"', f'shape="{HUGE},3"', "'data' (Parameter): invalid dim in its shape"),
        ('shape="?,3"', 'shape="3..1,3"', "'data' (Parameter): invalid dim in its shape"),
        ('shape="?,3"', 'shape="' + ",".join("1" * 65) + '"', "its shape has too many dims"),
        ('shape="?,3"', "", "'data' (Parameter): a Parameter needs the attributes shape"),
        ('shape="?,3"', 'shape="?,4"', "'data' (Parameter): its output port 0 declares wrong dims"),
        ("<dim>3</dim>", "<dim>-3</dim>", "'data' (Parameter): a dim of a port must be a number"),
        ("<dim>3</dim>", f"<dim>{HUGE}</dim>", "'data' (Parameter): a dim of a port must be a number"),
        ("<dim>3</dim>", "<dim>three</dim>", "'data' (Parameter): a dim of a port must be a number"),
        ("<dim>3</dim>", "<dim>1</dim>" * 65, "'data' (Parameter): a port has too many dims"),
        (
            'names="y"><dim>-1</dim><dim>3',
            'names="y"><dim>-1</dim><dim>4',
            "its output port 2 declares wrong dims",
        ),
        # types
        (
            'shape="?,3" element_type="f32"',
            'shape="?,3" element_type="f99"',
            "unsupported element_type",
        ),
        (
            'shape="?,3" element_type="f32"',
            'shape="?,3" element_type="f16"',
            "'data' (Parameter): its output port 0",
        ),
        (
            'element_type="f32" shape="3"',
            'element_type="i32" shape="3"',
            "'exponent' (Const): its output port 0",
        ),
        (
            'precision="FP32" names="y"',
            'precision="I8" names="y"',
            "'power' (Power): its output port 2 declares",
        ),
        # attributes
        (
            'auto_broadcast="numpy"',
            'auto_broadcast="wide"',
            "'power' (Power): auto_broadcast has an unknown value",
        ),
        ('auto_broadcast="numpy"', 'autobroadcast="none"', "'power' (Power): unknown attribute of Power"),
        # weights
        ('offset="4"', 'offset="8"', "'exponent' (Const): it reaches past the end of the weights"),
        ('offset="4"', f'offset="{2**63 - 1}"', "'exponent' (Const): it reaches past the end of the weights"),
        ('offset="4"', f'offset="{2**64}"', "'exponent' (Const): offset and size must be numbers"),
        ('offset="4"', 'offset="-4"', "'exponent' (Const): offset and size must be numbers"),
        ('offset="4"', "", "'exponent' (Const): it has no offset"),
        ('size="12"', 'size="8"', "'exponent' (Const): its shape contradicts its size"),
        ('size="12"', f'size="{2**62}"', "'exponent' (Const): its shape contradicts its size"),
        (
            'shape="3" offset',
            f'shape="{2**61},4" offset',
            "'exponent' (Const): its shape contradicts its size",
        ),
        ('shape="3" offset', 'shape="?" offset', "'exponent' (Const): its shape is not static"),
        ('shape="3" offset="4" size="12"', 'shape="4,1" offset="4" size="16"', "reaches past the end"),
        (
            'shape="3" offset="4" size="12"',
            f'shape="0,{2**62},4" offset="4" size="0"',
            "'exponent' (Const): its shape contradicts its size",
        ),
    ],
)
def test_what_a_layer_can_not_be(old: str, new: str, words: str) -> None:
    error = refused(edited(old, new), words)
    assert isinstance(error, hu.ModelError | hu.UnsupportedError)


def test_weights_that_are_missing_or_no_file(tmp_path: Path) -> None:
    (tmp_path / "net.xml").write_text(SMALL)
    with pytest.raises(
        hu.ModelError, match=r"net\.xml, node 'exponent' \(Const\): .*/net\.bin: can't be read"
    ):
        load(tmp_path / "net.xml")
    (tmp_path / "net.bin").mkdir()
    with pytest.raises(hu.ModelError, match="not a plain file"):
        load(tmp_path / "net.xml")
    (tmp_path / "net.bin").rmdir()
    os.mkfifo(tmp_path / "net.bin")  # to open it would wait for a writer
    with pytest.raises(hu.ModelError, match="not a plain file"):
        load(tmp_path / "net.xml")
    refused(SMALL, "the model came without weights", weights=None)
    for path, words in (
        (tmp_path / "none.xml", "No such file"),
        (tmp_path, "not a plain file"),
        ("/dev/zero", "not a plain file"),
        ("a\0b.xml", "can't be read: embedded null"),
    ):
        with pytest.raises(hu.ModelError, match=words):
            load(path)


def test_an_absurd_parameter_takes_no_memory() -> None:
    dims = "<dim>-1</dim><dim>3</dim>"
    text = SMALL.replace('shape="?,3"', f'shape="{2**62},3"').replace(dims, "")
    model = load(text.encode(), weights=WEIGHTS)
    with pytest.raises(hu.ModelError, match="input 'x' contradicts"):
        hu.run(model, {"x": np.zeros((1, 3), np.float32)})


def test_a_broadcast_that_no_memory_holds() -> None:
    text = SMALL.replace('shape="?,3"', 'shape="?,1,1,1,1"').replace("<dim>-1</dim><dim>3</dim>", "")
    text = text.replace(
        '<port id="1" precision="FP32"><dim>3</dim></port>', '<port id="1" precision="FP32"/>'
    )
    model = load(text.encode(), weights=WEIGHTS)
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 45, 1, 1, 1, 1), (0, 0, 0, 0, 0))
    with pytest.raises(hu.ModelError, match=r"'power' \(Power\): its output would not fit"):
        hu.run(model, {"x": x})


def constants(count: int, kind: str, size: int, step: int) -> str:
    """Return a file of constants, each a step after the last."""
    layer = (
        '<layer id="{0}" name="c{0}" type="Const" version="opset1">'
        '<data element_type="{1}" shape="{2}" offset="{3}" size="{4}"/><output><port id="0"/></output></layer>'
    )
    elements = 2 * size if kind in ("i4", "u4", "f4e2m1") else size
    layers = "".join(layer.format(i, kind, elements, i * step, size) for i in range(count))
    result = (
        f'<layer id="{count}" name="r" type="Result" version="opset1"><input><port id="0"/></input></layer>'
    )
    edge = f'<edge from-layer="0" from-port="0" to-layer="{count}" to-port="0"/>'
    return f'<net name="n" version="11"><layers>{layers}{result}</layers><edges>{edge}</edges></net>'


def test_constants_that_overlap_take_no_more_memory_than_their_file(tmp_path: Path) -> None:
    weights = bytes(1 << 18)
    for kind in ("i4", "boolean"):
        refused(constants(100, kind, 1 << 17, 1), "the constants overlap", weights=weights)
        with little_memory():  # the very same bytes are the very same array
            load(constants(100, kind, 1 << 17, 0).encode(), weights=weights)
    with little_memory():
        load(constants(100, "i8", 1 << 17, 1).encode(), weights=weights)


def test_thousands_of_constants(tmp_path: Path) -> None:
    (tmp_path / "net.xml").write_text(constants(3000, "f16", 8, 8).replace('shape="8"', 'shape="4"'))
    (tmp_path / "net.bin").write_bytes(np.arange(12_000, dtype=np.float16).tobytes())
    with few_files():
        model = load(tmp_path / "net.xml")
    assert model.graph.constants["c1"].tolist() == [4, 5, 6, 7]
    assert len(model.graph.constants) == 3000


def test_every_truncation_is_refused() -> None:
    data = SMALL.encode()
    for length in range(1, data.rindex(b"</net>"), 7):
        with pytest.raises(hu.ModelError, match="not well-formed XML"):
            load(data[:length], weights=WEIGHTS)
    for length in range(len(WEIGHTS)):
        refused(SMALL, "past the end", weights=WEIGHTS[:length])


def attempt(data: bytes, weights: bytes) -> None:
    """Load, and run what loads; only our own errors may come out."""
    with contextlib.suppress(hu.HalfulpError):
        model = load(data, weights=weights)
        hu.run(model, {value.name: np.ones((2, 3), np.float32) for value in model.inputs})


MANY = pytest.mark.exhaustive


@pytest.mark.parametrize(
    ("seed", "rounds"), [*((seed, 300) for seed in range(4)), pytest.param(4, 200_000, marks=MANY)]
)
def test_mutated_bytes_give_our_errors_or_a_model(seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    for _ in range(rounds):
        data = bytearray(SMALL.encode())
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[place] = rng.randrange(256)
                case 1:
                    del data[place : place + rng.randint(1, 40)]
                case 2:
                    data[place:place] = data[rng.randrange(len(data)) :][: rng.randint(1, 40)]
        attempt(bytes(data), WEIGHTS)


PARTS = [
    "0",
    "1",
    "2",
    "-1",
    "?",
    "",
    "3",
    "1..4",
    "...",
    "f16",
    "f32",
    "i64",
    "boolean",
    "pdpd",
    "none",
    HUGE,
    "Add",
]
PARTS += [
    "PReLU",
    "Result",
    "Const",
    "Parameter",
    "Reshape",
    "Unsqueeze",
    "Less",
    "Select",
    "opset9",
    "x",
    "FP16",
]


CHANGES = st.lists(st.tuples(st.integers(0, 200), st.sampled_from(PARTS)), min_size=1, max_size=4)


def attempt_with(changes: list[tuple[int, str]]) -> None:
    parts = SMALL.split('"')  # the odd ones are the attributes' values
    for place, value in changes:
        parts[(2 * place + 1) % (len(parts) - 1)] = value
    attempt('"'.join(parts).encode(), WEIGHTS)


@settings(max_examples=300)
@given(CHANGES)
def test_mutated_attributes_give_our_errors_or_a_model(changes: list[tuple[int, str]]) -> None:
    attempt_with(changes)


@MANY
@settings(max_examples=20_000)
@given(CHANGES)
def test_many_mutated_attributes(changes: list[tuple[int, str]]) -> None:
    attempt_with(changes)


@pytest.mark.parametrize("version", ["opset0", "opset18", "opset99"])
def test_an_operator_set_that_does_not_exist(version: str) -> None:
    text = SMALL.replace('type="Power" version="opset1"', f'type="Power" version="{version}"')
    assert text != SMALL
    error = refused(text, f"the operator set '{version}' does not exist")
    assert "'power' (Power)" in str(error)
    assert "opset1 to opset17" in str(error)


def test_a_file_without_a_result() -> None:
    text = re.sub(r'<layer id="3" name="result".*?</layer>', "", SMALL, flags=re.DOTALL)
    text = re.sub(r'<edge [^>]*to-layer="3"[^>]*/>', "", text)
    refused(text, "has no layer of the type Result")


def test_what_reads_a_result() -> None:
    text = SMALL.replace('output_names="y">', 'output_names="y"><output><port id="1"/></output>')
    text = text.replace(
        "</layers>", '<layer id="4" type="Result"><input><port id="0"/></input></layer></layers>'
    )
    edge = '<edge from-layer="3" from-port="1" to-layer="4" to-port="0"/>'
    refused(text.replace("</edges>", f"{edge}</edges>"), "'result' (Result): an edge leaves it")
