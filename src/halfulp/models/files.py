"""Reading and writing files: plain ones, NumPy's .npy and .npz, and the bytes of models, whose format is told here.

The shape in a header is compared with the file's size, nothing is unpickled, and a written file appears under its name
only when it is complete.

NumPy stores the element types that it lacks (bfloat16, the float8 and float4 types, int4, uint4) as raw bytes of type
``V2`` or ``V1``, one element to an item. When read, they are viewed as the type that the model names.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import secrets
import stat
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from halfulp.errors import HalfulpError, MissingFileError, ModelError
from halfulp.models.graph import MOST_DIMS, Array, available_memory, is_countable

if TYPE_CHECKING:
    from onnx import ModelProto

_LONGEST_HEADER = 1 << 16
_PIECE = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_NPZ = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError)


def read_npy(path: Path, dtype: np.dtype[Any] | None = None) -> Array:
    """Return the array of a .npy file, mapped, after comparing its header with the file's size.

    ``dtype`` is the type of elements that NumPy stores as raw bytes.

    Raises:
        HalfulpError: it can't be read, is not a .npy file, claims more than it holds, or holds objects.
    """
    with opened(path) as stream:
        shape, fortran, stored = _header(stream, str(path))
        offset = stream.tell()
        _check_size(shape, stored, os.fstat(stream.fileno()).st_size - offset, str(path))
    array = np.asarray(np.memmap(path, stored, "r", offset, shape, "F" if fortran else "C"))
    return viewed(array, dtype, str(path))


def read_npz(path: Path) -> dict[str, Array]:
    """Return the arrays of a .npz file by name."""
    arrays: dict[str, Array] = {}
    left = asked = available_memory()
    with opened(path) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                for entry in archive.infolist():
                    name = entry.filename.removesuffix(".npy")
                    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                        # NumPy writes no others, and LZMA takes as much memory as its header says.
                        raise HalfulpError(f"{path}, entry {name!r}: unsupported compression")
                    with archive.open(entry) as member:
                        if left < asked - _PIECE:  # asking takes longer than reading a small entry
                            left = asked = available_memory()
                        arrays[name] = _read_member(member, f"{path}, entry {name!r}", max(left, 0))
                        left -= arrays[name].nbytes
        except HalfulpError:
            raise
        except _NO_NPZ as error:
            raise HalfulpError(f"{path}: not a .npz file: {error}") from None
    return arrays


def viewed(array: Array, dtype: np.dtype[Any] | None, what: str) -> Array:
    """Return raw bytes as an array of a type of their size, and any other array unchanged."""
    if array.dtype.kind != "V":
        return array
    if dtype is None or dtype.itemsize != array.itemsize:
        expected = "a model that declares the input's type" if dtype is None else dtype.name
        got = f"{array.itemsize} raw bytes an element"
        raise HalfulpError(f"{what}: holds a type that NumPy lacks", expected=expected, got=got)
    return array.view(dtype)


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a .npz file, complete or not at all."""
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            if array.dtype == object:
                array = array.astype(str)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path``, which replaces it when the block ends without an error.

    Raises:
        HalfulpError: ``path`` is a folder or a device, its folder can't be written, or the disk is full.
    """
    given, path = path, Path(os.path.realpath(path))  # the target of a link is replaced, not the link
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        raise HalfulpError(f"{given}: can't be written: not a plain file")
    # The name is known before the file exists, so that an interrupt at any moment leaves no file behind.
    temporary = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.tmp")
    try:
        try:
            first_mode = 0o666 if mode is None else 0o600
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, first_mode))
        except OSError as error:
            raise HalfulpError(f"{given}: can't be written: {error.strerror}") from None
        yield temporary
        if mode is not None:
            temporary.chmod(mode & 0o777)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _FULL:  # which names no file
            raise HalfulpError(f"{given}: can't be written: {error.strerror}") from None
        raise


@contextlib.contextmanager
def opened(path: Path, file: str | None = None) -> Iterator[IO[bytes]]:
    """Open a plain file, which messages call ``file`` or by its path, to read it.

    Raises:
        MissingFileError: there is no such file.
        ModelError: it can't be read, or is a folder, a pipe or a device.
    """
    name = file or str(path)
    try:
        # Opening a named pipe would wait for its writer.
        stream = path.open("rb") if stat.S_ISREG(path.stat().st_mode) else None
    except FileNotFoundError as error:
        raise MissingFileError(f"can't be read: {error.strerror}", file=name) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"can't be read: {getattr(error, 'strerror', error)}", file=name) from None
    if stream is None:
        raise ModelError("not a plain file", file=name)
    with stream:
        yield stream


def read_whole(path: Path, most: int, file: str | None = None) -> bytes:
    """Return the bytes of a plain file of at most ``most`` bytes; errors are as for :func:`opened`."""
    with opened(path, file) as stream:
        if os.fstat(stream.fileno()).st_size > most:
            raise ModelError("too large", file=file or str(path), expected=f"at most {most} bytes")
        try:
            return stream.read()
        except OSError as error:
            raise ModelError(f"can't be read: {error.strerror}", file=file or str(path)) from None


def read_text(path: Path, most: int) -> str:
    """Return the UTF-8 text of a plain file of at most ``most`` bytes."""
    try:
        return read_whole(path, most).decode()
    except UnicodeDecodeError:
        raise HalfulpError(f"{path}: not UTF-8") from None


def _header(stream: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    start = stream.read(8)
    major = start[6] if len(start) == 8 else 0
    if start[:6] != np.lib.format.MAGIC_PREFIX or major not in (1, 2):
        # Version 3 is written for structured types alone.
        raise HalfulpError(f"{what}: not a .npy file, or not of plain numbers")
    length = int.from_bytes(stream.read(2 if major == 1 else 4), "little")
    if length > _LONGEST_HEADER:
        raise HalfulpError(f"{what}: its header is too long", got=f"{length} bytes")
    stream.seek(8)
    try:
        read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's warnings about the header as a literal
            shape, fortran, dtype = read(stream, max_header_size=_LONGEST_HEADER)
    except Exception as error:
        # NumPy evaluates the header as a Python literal, with more kinds of errors than it documents.
        line = str(error).partition("\n")[0][:100]
        raise HalfulpError(f"{what}: a broken .npy header: {line}") from None
    _check_header(shape, dtype, what)
    return shape, fortran, dtype


def _check_header(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> None:
    if dtype.hasobject:
        raise HalfulpError(f"{what}: holds pickled objects, which are never loaded")
    if (dtype.names, dtype.subdtype) != (None, None):
        raise HalfulpError(f"{what}: holds records, not numbers", got=str(dtype)[:80])
    is_absurd = len(shape) > MOST_DIMS or (0 in shape and not is_countable(shape)) or not dtype.itemsize
    if is_absurd or any(type(dim) is bool or dim < 0 for dim in shape):
        raise HalfulpError(f"{what}: its header has an invalid shape", got=str(shape)[:80])


def _check_size(shape: tuple[int, ...], dtype: np.dtype[Any], held: int, what: str) -> None:
    needed = math.prod(shape) * dtype.itemsize
    if needed > held:
        expected = f"{needed} bytes for {dtype.name}{list(shape)}"[:200]
        message = f"{what}: its header claims more than the file holds"
        raise HalfulpError(message, expected=expected, got=f"{held} bytes")


def _read_member(member: IO[bytes], what: str, memory: int) -> Array:
    """Return the array of an entry that takes at most ``memory`` bytes."""
    shape, fortran, dtype = _header(member, what)
    # The archive may lie about sizes too: the decompressed data decides.
    needed = math.prod(shape) * dtype.itemsize
    data = member.read(min(needed, memory))
    if len(data) == memory < needed:
        expected, got = f"at most {memory / 2**30:.3g} GiB", f"{needed / 2**30:.3g} GiB"
        raise HalfulpError(f"{what}: would not fit into this computer's memory", expected=expected, got=got)
    _check_size(shape, dtype, len(data), what)
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def inside(folder: Path | None, location: str, what: str) -> Path:
    """Return the path of a file that a model names; refuse one outside the folder.

    Args:
        folder: the folder that must contain the file; None if the model came without one.
        location: the name in the model. A backslash separates folders too, unless a file has it in its name.
        what: its name in messages.

    Raises:
        HalfulpError: the location is absolute, goes up, or leads out through a symbolic link; or the file is missing.
    """
    shown = repr(location[:80])
    if folder is None:
        raise HalfulpError(f"{what} names a file, but the model came without a folder", got=shown)
    relative = PurePosixPath(location.replace("\\", "/"))
    if _leaves(location, relative):
        raise HalfulpError(f"{what} leaves the model's folder", got=shown)
    try:
        root = folder.resolve(strict=True)
        # On systems where names may contain a backslash, such as Linux, a file of that name comes first.
        named = root / location if os.path.lexists(root / location) else root / relative
        path = named.resolve(strict=True)
        regular = stat.S_ISREG(path.stat().st_mode)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        way = "a file of this name beside the model: it belongs to it; copy or download it, too"
        expected = way if isinstance(error, FileNotFoundError) else None
        raise HalfulpError(f"{what} can't be used: {reason}", expected=expected, got=shown) from None
    if not path.is_relative_to(root):
        raise HalfulpError(f"{what} leaves the model's folder through a symbolic link", got=shown)
    if not regular:
        raise HalfulpError(f"{what} is not a plain file", got=shown)
    if not os.access(path, os.R_OK):
        raise HalfulpError(f"{what} may not be read", got=shown)
    return path


def _leaves(location: str, path: PurePosixPath) -> bool:
    has_drive = location[1:2] == ":"
    return not path.name or "\0" in location or path.is_absolute() or has_drive or ".." in path.parts


# --- models ------------------------------------------------------------------------------------------

Format = Literal["onnx", "openvino"]
SUFFIXES = (".onnx", ".xml")  # of their files
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
    """Return the format that a file is to be written in, by its suffix; raises HalfulpError if no format has it."""
    if Path(output).suffix.lower() not in SUFFIXES:
        message = f"{os.fspath(output)}: no format that is written has the suffix {Path(output).suffix!r}"
        raise HalfulpError(message, expected=".onnx or .xml")
    return format_of(output)


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
