"""Reading and writing files: plain ones as they are, .npy and .npz as NumPy writes them.

No array is believed larger than its file, nothing is unpickled, and what is written appears under
its name only when it is complete.

NumPy stores the element types it doesn't know (bfloat16, the float8 and float4 types, int4, uint4) as
raw bytes, type ``V2`` or ``V1``. That is how they are written here, one element to an item; when
read, they are viewed as the type that the model or ``--type`` says.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import stat
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

import numpy as np

from halfulp.errors import HalfulpError, MissingFileError, ModelError
from halfulp.models.graph import Array, is_countable
from halfulp.models.memory import available_memory

_LONGEST_HEADER = 1 << 16
_PIECE = 1 << 20
_NO_NPZ = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error),
    *(NotImplementedError, RuntimeError, EOFError, OSError, ValueError),
)


@dataclass(frozen=True)
class NpyFile:
    """The array of a .npy file, which is mapped when it is asked for, in whole or in part."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int

    def map(self) -> Array:
        """Return the whole array, read-only."""
        if math.prod(self.shape) == 0:
            return np.empty(self.shape, self.dtype)
        order: Literal["C", "F"] = "F" if self.fortran else "C"
        return np.asarray(np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order))

    def map_part(self, start: int, shape: tuple[int, ...], mode: Literal["r", "r+"] = "r") -> Array:
        """Return ``shape`` elements from element ``start`` on, in C order; written through with r+."""
        offset = self.offset + start * self.dtype.itemsize
        return np.asarray(np.memmap(self.path, self.dtype, mode, offset, shape))


def open_npy(path: Path, dtype: np.dtype[Any] | None = None) -> NpyFile:
    """Return a .npy file, its header read and compared with its size.

    Args:
        path: the file.
        dtype: what its elements are, where NumPy stores raw bytes because it has no name for them.

    Raises:
        HalfulpError: it can't be read, is no .npy file, claims more than it holds, or holds objects.
    """
    with opened(path) as stream:
        shape, fortran, stored = _header(stream, str(path))
        offset = stream.tell()
        _check_size(shape, stored, os.fstat(stream.fileno()).st_size - offset, str(path))
    return NpyFile(path, _viewed(stored, dtype, str(path)), shape, fortran, offset)


def create_npy(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NpyFile:
    """Make a .npy file of zeros whose space is reserved: a full disk is an OSError here and not later."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        offset = stream.tell()
        size = math.prod(shape) * dtype.itemsize
        if size:
            _reserve(stream, offset, size)
    return NpyFile(path, dtype, shape, False, offset)


def _reserve(stream: IO[bytes], offset: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(stream.fileno(), offset, size)
        return
    # Not on macOS and Windows. To set the length alone would reserve nothing on the former.
    for start in range(0, size, _PIECE):
        stream.write(bytes(min(_PIECE, size - start)))


def read_npz(path: Path) -> dict[str, Array]:
    """Return the arrays of a .npz file by name; raises HalfulpError where it is broken."""
    arrays = {}
    with opened(path) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                for entry in archive.infolist():
                    name = entry.filename.removesuffix(".npy")
                    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                        # LZMA takes as much memory as its header says; NumPy writes neither that nor the others.
                        raise HalfulpError(f"{path}, entry {name!r}: compressed as NumPy does not do")
                    with archive.open(entry) as member:
                        arrays[name] = _read_member(member, f"{path}, entry {name!r}")
        except HalfulpError:
            raise
        except _NO_NPZ as error:
            raise HalfulpError(f"{path}: not a .npz file: {error}") from None
    return arrays


def viewed(array: Array, dtype: np.dtype[Any] | None, what: str) -> Array:
    """Return raw bytes as an array of a type of their size; any other array as it is."""
    return array.view(_viewed(array.dtype, dtype, what))


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a .npz file, complete or not at all; raises HalfulpError where that can't be."""
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            if array.dtype == object:
                array = array.astype(str)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary file beside ``path``, which takes its place when the block ends well.

    Raises:
        HalfulpError: ``path`` is a folder or a device, or its folder can't be written.
    """
    given, path = path, Path(os.path.realpath(path))  # replace what a link points to, not the link
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        raise HalfulpError(f"{given}: can't be written: not a plain file")
    # Known before it exists, so that an interrupt at any moment leaves nothing behind.
    temporary = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.tmp")
    try:
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            raise HalfulpError(f"{given}: can't be written: {error.strerror}") from None
        yield temporary
        temporary.chmod(0o666 & ~_umask() if mode is None else mode & 0o777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def opened(path: Path, file: str | None = None) -> Iterator[IO[bytes]]:
    """Open a plain file to read it.

    Raises:
        MissingFileError: there is no such file.
        HalfulpError: it can't be read, or is a folder, a pipe or a device; a ModelError where ``file`` is given.
    """
    try:
        # Before opening: to open a named pipe would wait for its writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise _unread("not a plain file", path, file)
        stream = path.open("rb")
    except HalfulpError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError(f"can't be read: {error.strerror}", file=file or str(path)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise _unread(f"can't be read: {reason}", path, file) from None
    with stream:
        yield stream


def read_whole(path: Path, most: int, file: str | None = None) -> bytes:
    """Return the bytes of a plain file of at most ``most`` bytes; else raises as :func:`opened` does."""
    with opened(path, file) as stream:
        if os.fstat(stream.fileno()).st_size > most:
            raise _unread("too large", path, file, expected=f"at most {most} bytes")
        return stream.read()


def read_text(path: Path, most: int) -> str:
    """Return the text in UTF-8 of a plain file of at most ``most`` bytes; else raises HalfulpError."""
    try:
        return read_whole(path, most).decode()
    except UnicodeDecodeError:
        raise HalfulpError(f"{path}: not UTF-8") from None


def _unread(message: str, path: Path, file: str | None, **shown: Any) -> HalfulpError:
    if file is not None:
        return ModelError(message, file=file, **shown)
    return HalfulpError(f"{path}: {message}", **shown)


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
            warnings.simplefilter("ignore")  # Python's, of what is no good Python
            shape, fortran, dtype = read(stream, max_header_size=_LONGEST_HEADER)
    except Exception as error:
        # NumPy evaluates the header as a Python literal, which fails in more ways than it documents.
        line = (str(error).splitlines() or ["unreadable"])[0]
        raise HalfulpError(f"{what}: a broken .npy header: {line[:100]}") from None
    if dtype.hasobject:
        raise HalfulpError(f"{what}: holds pickled objects, which are never loaded")
    if dtype.names is not None or dtype.subdtype is not None:
        raise HalfulpError(f"{what}: holds records, not numbers", got=str(dtype)[:80])
    if any(dim < 0 or isinstance(dim, bool) for dim in shape) or len(shape) > 64 or not dtype.itemsize:
        raise HalfulpError(f"{what}: its header claims a shape that can't be", got=str(shape)[:80])
    return shape, fortran, dtype


def _check_size(shape: tuple[int, ...], dtype: np.dtype[Any], held: int, what: str) -> None:
    needed = math.prod(shape) * dtype.itemsize
    if needed > held or not is_countable(shape):
        raise HalfulpError(
            f"{what}: its header claims more than the file holds",
            expected=f"{needed} bytes for {dtype.name}{list(shape)}"[:200],
            got=f"{held} bytes",
        )


def _viewed(stored: np.dtype[Any], wanted: np.dtype[Any] | None, what: str) -> np.dtype[Any]:
    """Return the dtype to see stored elements as: only raw bytes are seen as anything else."""
    if stored.kind != "V":
        return stored
    if wanted is None or wanted.itemsize != stored.itemsize:
        raise HalfulpError(
            f"{what}: holds a type that NumPy has no name for",
            expected="--type NAME=TYPE, such as x=bfloat16" if wanted is None else wanted.name,
            got=f"{stored.itemsize} raw bytes an element",
        )
    return wanted


def _read_member(member: IO[bytes], what: str) -> Array:
    shape, fortran, dtype = _header(member, what)
    # What the archive says of its sizes is a claim as well: take what the data decompresses to.
    needed = math.prod(shape) * dtype.itemsize
    memory = available_memory()
    data = member.read(min(needed, memory))
    if len(data) == memory < needed:
        raise HalfulpError(
            f"{what}: would not fit into this computer's memory",
            expected=f"at most {memory / 2**30:.3g} GiB",
            got=f"{needed / 2**30:.3g} GiB",
        )
    _check_size(shape, dtype, len(data), what)
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def inside(folder: Path | None, location: str, what: str, *, exists: bool = True) -> Path:
    """Return the path of a file that a model names, refusing all that leaves a folder.

    Args:
        folder: where the file must lie; None where there is none.
        location: as the model spells it; a backslash separates folders as well,
            unless a file has it in its name.
        what: how messages name it.
        exists: whether it must be there, and a plain file.

    Raises:
        HalfulpError: the location is absolute, goes up, or leads out through a symbolic link; or the
            file is missing where it must not be.
    """
    shown = repr(location[:80])
    if folder is None:
        raise HalfulpError(f"{what} names a file, but the model came without a folder", got=shown)
    relative = PurePosixPath(location.replace("\\", "/"))
    drive = len(location) > 1 and location[1] == ":"
    if not relative.name or "\0" in location or relative.is_absolute() or drive or ".." in relative.parts:
        raise HalfulpError(f"{what} leaves the model's folder", got=shown)
    try:
        root = folder.resolve(strict=True)
        # Where a backslash is a character of names as any other, as on Linux, a file of that name goes first.
        named = root / location if os.path.lexists(root / location) else root / relative
        path = named.resolve(strict=exists)
        regular = not exists or stat.S_ISREG(path.stat().st_mode)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise HalfulpError(f"{what} can't be used: {reason}", got=shown) from None
    if not path.is_relative_to(root):
        raise HalfulpError(f"{what} leaves the model's folder through a symbolic link", got=shown)
    if not regular:
        raise HalfulpError(f"{what} is not a plain file", got=shown)
    if exists and not os.access(path, os.R_OK):
        raise HalfulpError(f"{what} may not be read", got=shown)
    return path
