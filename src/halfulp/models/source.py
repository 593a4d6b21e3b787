"""The source of a model: its format, its bytes, and the kind of a file of another format."""

from __future__ import annotations

import os
import re
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

_EXPORT = 'an .onnx file: torch.onnx.export(model, inputs, "net.onnx", dynamo=True)'
_TFLITE = "an .onnx file: python -m tf2onnx.convert --tflite net.tflite --output net.onnx"
_RAW = "the file itself: download it by its raw link, which is not the link of its page"
_KINDS: Mapping[bytes, tuple[str, str]] = {
    rb"\Z": ("an empty file", "the whole file: download or export it again"),
    rb"(\xef\xbb\xbf)?\s*<(!doctype )?html": ("a web page (HTML)", _RAW),
    rb"version https://git-lfs": ("a pointer of Git LFS", "the file itself: git lfs pull"),
    rb"PK\x03\x04|\x80[\x02-\x05]": ("an archive or a pickle, as files of PyTorch are", _EXPORT),
    rb".\0\0\0TFL3": ("a model of TensorFlow Lite", _TFLITE),
    rb".\0\0\0ORTM": ("a file in ONNX Runtime's own format", "the .onnx file that it was made from"),
}
"""The other kinds of files, by what these begin with, and what is expected instead. No ONNX file begins like this."""


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
        data = read_whole(path, most, name)
    else:
        wanted = "a path, the bytes of a file or an onnx.ModelProto"
        raise HalfulpError(f"a model must be {wanted}", got=type(source).__name__)
    for start, (kind, expected) in _KINDS.items():
        if re.match(start, data, re.DOTALL | re.IGNORECASE):
            raise ModelError(f"{kind}, not a model that halfulp reads", file=name, expected=expected)
    return data, name, path


def misnamed(data: bytes, file: str) -> ModelError | None:
    """Return the error for a file that is not ONNX, if its first character tells that it is OpenVINO's."""
    if format_of(data) == "openvino":
        return ModelError("not an ONNX model: it begins like a *.xml file", file=file)
    return None
