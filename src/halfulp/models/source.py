"""The source of a model: its format, its bytes, and the kind of a file of another format."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from halfulp.errors import HalfulpError, ModelError
from halfulp.models.files import read_whole

if TYPE_CHECKING:
    from onnx import ModelProto

Format = Literal["onnx", "openvino"]
Source: TypeAlias = "str | os.PathLike[str] | bytes | ModelProto"
"""A model: a path, a file's bytes, or a parsed ONNX message."""

_ADDRESS = re.compile(r"(https?|ftp|s3|gs|hf):/")  # a Path has one slash of two

Kind = tuple[str, str]
"""The kind of a file of another format, and the file that is expected instead of it."""

_TABLE = """
.bin | weights without a graph | the .xml file beside them, or an .onnx file
.caffemodel | a model of Caffe | an .onnx file: export the model by a converter such as caffe2onnx
.dlc .hef .kmodel .mnn .om .param .rknn | a model of another runtime | the .onnx file that it was converted from
.engine .plan | an engine of TensorRT | the .onnx file that it was built from
.gguf | weights without a graph (GGUF) | an .onnx file: export the model that they belong to
.h5 .hdf5 .keras | a model of Keras | an .onnx file: model.export("net.onnx", format="onnx") in Keras
.mlmodel .mlpackage | a model of Core ML | an .onnx file: export the model that it was converted from
.ort | a file in ONNX Runtime's own format | the .onnx file that it was made from
.params | weights of MXNet | an .onnx file: mxnet.onnx.export_model(symbol, params, shapes)
.pb | a graph of TensorFlow | an .onnx file: python -m tf2onnx.convert --saved-model FOLDER --output net.onnx
.pdiparams .pdmodel | a model of Paddle | an .onnx file: export the model by paddle2onnx
.pt .pt2 .pth | a file of PyTorch | an .onnx file: torch.onnx.export(model, inputs, "net.onnx", dynamo=True)
.safetensors | weights without a graph (safetensors) | an .onnx file: export the model that they belong to
.tflite | a model of TensorFlow Lite | an .onnx file: python -m tf2onnx.convert --tflite net.tflite --output net.onnx
archive | an archive | the file that is packed in it: unpack it, such as by unzip or tar -xf
array | an array of NumPy | a model, of which it may be an input: --input NAME=FILE
empty | an empty file | a model: download or export it again
packed | a compressed file | the file that is packed in it: unpack it, such as by gunzip
page | a web page (HTML) | the file itself: download it by its raw link, which is not the link of its page
pointer | a pointer of Git LFS | the file itself: git lfs pull
text | an ONNX model as text | the binary form: onnx.save(onnx.load("net.onnxtxt"), "net.onnx")
"""
_KINDS: Mapping[str, Kind] = {
    name: (kind, expected)
    for names, kind, expected in (line.split(" | ") for line in _TABLE.strip().splitlines())
    for name in names.split()
}
"""The kinds by the suffixes of files, or by a word."""

_MAGIC: Mapping[bytes, str] = {
    b"version https://git-lfs": "pointer",
    b"\x89HDF\r\n\x1a\n": ".h5",
    b"GGUF": ".gguf",
    b"ftrt": ".engine",
    b"\x93NUMPY": "array",
    **dict.fromkeys((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"), "packed"),
    **{b"\x80" + bytes([protocol]): ".pt" for protocol in range(2, 6)},  # a pickle
}
"""Files that begin like this are not ONNX: each would be an unknown field of ONNX, or not a field at all."""


def format_of(source: Source) -> Format:
    """Return the format of a model: by the suffix of a path, or by the first character of bytes."""
    if isinstance(source, bytes):
        # This character can't be the first one of an ONNX file.
        is_xml = source[:64].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")
    else:
        is_xml = isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".xml"
    return "openvino" if is_xml else "onnx"


def format_to_write(output: str | os.PathLike[str]) -> Format:
    """Return the format that a file is to be written in, by its suffix.

    Raises:
        HalfulpError: no format has this suffix.
    """
    if not has_suffix_of_format(output):
        message = f"{os.fspath(output)}: no format that is written has the suffix {Path(output).suffix!r}"
        raise HalfulpError(message, expected=".onnx or .xml")
    return format_of(output)


def has_suffix_of_format(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is named as a model of one of the formats is."""
    return Path(path).suffix.lower() in (".onnx", ".xml")


def read_source(source: object, most: int, file: str | None = None) -> tuple[bytes, str, Path | None]:
    """Return a model's bytes, its name in messages (``file``, the path or ``<bytes>``), and its path, if any.

    Raises:
        ModelError: it can't be read, has more than ``most`` bytes, or is of a known other kind.
        HalfulpError: the source is neither a path nor bytes.
    """
    if isinstance(source, bytes):
        data, name, path = source, file or "<bytes>", None
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        name = file or str(path)
        if _ADDRESS.match(name) and not path.exists():
            address = re.sub(r":/+", "://", name, count=1)
            raise ModelError("an address, and models are read from files; download it first", file=address)
        if (error := folder_error(path, name)) is not None:
            raise error
        data = read_whole(path, most, name)
    else:
        wanted = "a path, the bytes of a file or an onnx.ModelProto"
        raise HalfulpError(f"a model must be {wanted}", got=type(source).__name__)
    if (kind := _by_content(data)) is not None:
        suffix = Path(name).suffix.lower()
        raise _error(suffix if kind == "archive" and suffix in _KINDS else kind, name)
    return data, name, path


def misnamed(data: bytes, file: str) -> ModelError | None:
    """Return the error for a file that is not ONNX, if its name or its first character tells its kind."""
    if (suffix := Path(file).suffix.lower()) in _KINDS:
        return _error(suffix, file)
    if format_of(data) == "openvino":
        return ModelError("not an ONNX model: it begins like a *.xml file", file=file)
    return None


def folder_error(folder: Path, file: str) -> ModelError | None:
    """Return the error for a folder that is another library's model, if it is one."""
    if folder.suffix.lower() == ".mlpackage" and folder.is_dir():
        return _error(".mlpackage", file)
    return _error(".pb", file) if (folder / "saved_model.pb").is_file() else None


def _error(kind: str, file: str) -> ModelError:
    found, expected = _KINDS[kind]
    return ModelError(f"{found}, not a model that halfulp reads", file=file, expected=expected)


def _by_content(data: bytes) -> str | None:
    if not data:
        return "empty"
    start = data[:64].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "page"
    if start.lstrip(b"<\r\n\t ").startswith(b"ir_version"):
        return "text"
    if data[1:4] == bytes(3):  # FlatBuffers: the root's offset in little endian, then the kind of the file
        return {b"ORTM": ".ort", b"TFL3": ".tflite"}.get(data[4:8]) or _safetensors(data)
    if data.startswith(b"PK\x03\x04"):
        return _zip(data)
    return next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), _safetensors(data))


def _safetensors(data: bytes) -> str | None:
    length = int.from_bytes(data[:8], "little")
    return ".safetensors" if data[8:9] == b"{" and length <= len(data) - 8 else None


def _zip(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [Path(name).name for name in archive.namelist()]
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return "archive"
    if "data.pkl" in names:
        return ".pt"
    if "model.weights.h5" in names:
        return ".keras"
    return "array" if names and all(name.endswith(".npy") for name in names) else "archive"
