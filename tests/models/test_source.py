"""Files of other kinds are named by what they are, with what helps, wherever a model is read."""

import io
import re
import zipfile
from pathlib import Path

import onnx
import pytest
from tests.models.onnx_models import single
from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app
from halfulp.models.onnx import load, parse


def zipped(*names: str) -> bytes:
    """Return an archive with empty files of these names."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return stream.getvalue()


def model() -> onnx.ModelProto:
    """Return a small model."""
    return single("Pow", 15, {"x": ("float32", [2]), "y": ("float32", [2])})


TORCH = (
    "an archive or a pickle, as files of PyTorch are"
    '|an .onnx file: torch.onnx.export(model, inputs, "net.onnx", dynamo=True)'
)
ORT = "a file in ONNX Runtime's own format|the .onnx file that it was made from"
TFLITE = "a model of TensorFlow Lite|an .onnx file: python -m tf2onnx.convert --tflite net.tflite --output net.onnx"
POINTER = "a pointer of Git LFS|the file itself: git lfs pull"
PAGE = "a web page (HTML)|the file itself: download it by its raw link, which is not the link of its page"

CONTENTS = {
    "ort": (b"\x1c\0\0\0ORTM\0\0\0\0", ORT),
    "tflite": (b"\x20\0\0\0TFL3\0\0\0\0", TFLITE),
    "torch": (zipped("archive/data.pkl", "archive/data/0", "archive/version"), TORCH),
    "older torch": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", TORCH),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n", POINTER),
    "page": (b"\n\n<!DOCTYPE html>\n<html lang=en>", PAGE),
    "older page": (b"\xef\xbb\xbf<HTML>", PAGE),
}


def text(file: Path | str, kind: str) -> str:
    """Return the error."""
    name, helps = kind.split("|")
    return f"{file}: {name}, not a model that halfulp reads\n  expected: {helps}"


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("suffix", ["onnx", "xml", "txt"])
def test_a_file_is_named_by_its_content(name, suffix, tmp_path):
    data, kind = CONTENTS[name]
    file = tmp_path / f"net.{suffix}"
    file.write_bytes(data)
    with pytest.raises(hu.ModelError) as caught:
        load(file)
    assert str(caught.value) == text(file, kind)
    with pytest.raises(hu.ModelError) as caught:
        load(data)
    assert str(caught.value) == text("<bytes>", kind)


@pytest.mark.parametrize("file", ["net.pt", "net.pb", "net.tflite"])
def test_an_onnx_model_may_have_any_name(file, tmp_path):
    onnx.save(model(), tmp_path / file)
    assert load(tmp_path / file).graph.inputs[0].name == "x"


@pytest.mark.parametrize("magic", ["TFL3", "ORTM"])
def test_what_an_onnx_model_may_begin_with(magic):
    proto = model()
    proto.producer_name = magic
    assert proto.SerializeToString()[4:8] == magic.encode()
    assert load(proto.SerializeToString()).graph.inputs[0].name == "x"


def test_another_format_under_an_onnx_name(tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"<?xml version='1.0'?><net/>")
    with pytest.raises(hu.ModelError) as caught:
        load(tmp_path / "net.onnx")
    assert caught.value.message == "not an ONNX model: it begins like a *.xml file"


@pytest.mark.parametrize("door", [load, hu.run, hu.audit, hu.convert, parse])
def test_each_door(door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.pt").write_bytes(CONTENTS["torch"][0])
    with pytest.raises(hu.ModelError) as caught:
        door("net.pt")
    assert str(caught.value) == text("net.pt", TORCH)


@pytest.mark.parametrize(
    "address", ["https://example.org/a/net.onnx", "s3://bucket/net.xml", "http:/x/net.onnx"]
)
def test_an_address_is_no_path(address):
    words = "://.*: an address, and models are read from files; download it first"
    for door in (hu.run, hu.audit):
        with pytest.raises(hu.ModelError, match=words):
            door(address)
    result = CliRunner().invoke(app, ["run", address])
    assert result.exit_code == 2
    assert re.search(words, result.stderr)


# --- what a model may come as, at each door ---


@pytest.mark.parametrize("door", [load, hu.run, hu.audit, hu.convert])
@pytest.mark.parametrize("source", [3, None, ["net.onnx"], bytearray(b"<net"), onnx.GraphProto()])
def test_what_is_no_model(door, source):
    with pytest.raises(hu.HalfulpError) as caught:
        door(source)
    assert str(caught.value) == (
        f"a model must be a path, the bytes of a file or an onnx.ModelProto\n  got: {type(source).__name__}"
    )
