"""What a model may come as, at each door."""

from pathlib import Path

import onnx
import pytest

import halfulp as hu
from halfulp.models.onnx import load, parse


@pytest.mark.parametrize("door", [load, hu.run, hu.audit, hu.convert, parse])
def test_a_file_of_another_kind_is_named_by_what_it_is(door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = b"PK\x03\x04"
    Path("net.pt").write_bytes(data)
    for source, name in (("net.pt", "net.pt"), (data, "<bytes>")):
        with pytest.raises(hu.ModelError) as caught:
            door(source)
        assert str(caught.value).startswith(
            f"{name}: an archive or a pickle, as files of PyTorch are, not a model"
        )


@pytest.mark.parametrize("door", [load, hu.run, hu.audit, hu.convert])
@pytest.mark.parametrize("source", [3, None, ["net.onnx"], bytearray(b"<net"), onnx.GraphProto()])
def test_what_is_no_model(door, source):
    with pytest.raises(hu.HalfulpError) as caught:
        door(source)
    assert str(caught.value) == (
        f"a model must be a path, the bytes of a file or an onnx.ModelProto\n  got: {type(source).__name__}"
    )
