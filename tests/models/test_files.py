"""Arrays from and to files, hostile ones among them."""

import contextlib
import errno
import os
import stat
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper

from halfulp.errors import HalfulpError
from halfulp.models.files import read_npy, read_npz, read_whole, replacing, viewed, write_npz
from halfulp.models.onnx.tensors import read_pb


def header(text: str, version: tuple[int, int] = (1, 0), length: int | None = None) -> bytes:
    """Return the start of a .npy file with a header of one's own."""
    data = text.encode()
    size = len(data) if length is None else length
    return b"\x93NUMPY" + bytes(version) + size.to_bytes(2 if version[0] == 1 else 4, "little") + data


@pytest.mark.parametrize(
    "array", [np.arange(6.0).reshape(2, 3), np.array(5, np.int8), np.zeros((0, 4)), np.arange(3, dtype=">i4")]
)
def test_npy(tmp_path, array):
    for number, saved in enumerate((array, np.asfortranarray(array))):
        np.save(tmp_path / f"{number}.npy", saved)
        read = read_npy(tmp_path / f"{number}.npy")
        assert read.dtype == array.dtype
        assert not read.flags.writeable or read.size == 0
        np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float4_e2m1fn", "int4"])
def test_types_that_numpy_does_not_know(tmp_path, name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    array = np.array([0, 1, 2, 3]).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    assert read_npy(tmp_path / "x.npy", dtype).tobytes() == array.tobytes()
    assert read_npy(tmp_path / "x.npy", dtype).dtype == dtype
    with pytest.raises(HalfulpError, match="holds a type that NumPy lacks"):
        read_npy(tmp_path / "x.npy")
    with pytest.raises(HalfulpError, match="holds a type that NumPy lacks"):
        read_npy(tmp_path / "x.npy", np.dtype(np.float64))
    assert viewed(np.load(tmp_path / "x.npy"), dtype, "x").dtype == dtype


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (1if 0 else 2,), }"),
            "broken .npy header",
        ),
        (header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**60}, {2**60}), }}"), "claims more"),
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), "pickled objects"),
        (header("__import__('os').system('false')"), "broken .npy header"),
        (header("(" * 5000), "broken .npy header"),
        (header("x", (2, 0), 2**31), "header is too long"),
    ],
)
def test_broken_npy_files(tmp_path, data, words):
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(HalfulpError, match=words) as caught:
        read_npy(path)
    assert str(path) in str(caught.value)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", data)
    with pytest.raises(HalfulpError, match=words):
        read_npz(tmp_path / "x.npz")


def test_what_can_not_be_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, words in (
        (tmp_path / "none.npy", "No such file or directory"),
        (tmp_path, "not a plain file"),
        (tmp_path / "fifo", "not a plain file"),
        (Path("a\0b"), "can't be read"),
        (Path("/dev/zero"), "not a plain file"),
    ):
        for read in (read_npy, read_npz, read_pb):
            with pytest.raises(HalfulpError, match=words):
                read(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(1))
    (tmp_path / "x.npy").chmod(0)
    with pytest.raises(HalfulpError, match="Permission denied"):
        read_npy(tmp_path / "x.npy")


def test_npz(tmp_path):
    arrays = {
        "x": np.arange(6.0).reshape(2, 3),
        "file": np.array(["a", "bcd"], object),  # a name that np.savez can't take
        "a/b": np.array([1.5], ml_dtypes.bfloat16),
    }
    write_npz(tmp_path / "out.npz", arrays)
    with np.load(tmp_path / "out.npz") as loaded:
        np.testing.assert_array_equal(loaded["x"], arrays["x"])
        assert loaded["file"].tolist() == ["a", "bcd"]
        assert loaded["a/b"].view(ml_dtypes.bfloat16) == 1.5
    again = read_npz(tmp_path / "out.npz")
    assert again.keys() == arrays.keys()
    np.savez_compressed(tmp_path / "packed.npz", y=np.asfortranarray(arrays["x"]))
    np.testing.assert_array_equal(read_npz(tmp_path / "packed.npz")["y"], arrays["x"])


def test_broken_npz_files(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(1000))
    data = (tmp_path / "x.npz").read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(200):
        mutated = bytearray(data)
        for position in rng.integers(0, len(data), 3):
            mutated[position] = rng.integers(0, 256)
        (tmp_path / "x.npz").write_bytes(mutated[: rng.integers(0, len(data) + 1)])
        try:
            read_npz(tmp_path / "x.npz")
        except HalfulpError as error:
            assert str(tmp_path) in str(error)  # noqa: PT017


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_entry_compressed_as_numpy_does_not(tmp_path, method):
    """A header of LZMA claims memory, up to 4 GiB."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive:
        archive.writestr("x.npy", header("{'descr': '|i1', 'fortran_order': False, 'shape': (1,), }") + b"1")
    with pytest.raises(HalfulpError, match=r"entry 'x': unsupported compression"):
        read_npz(tmp_path / "x.npz")


def test_an_entry_that_claims_too_much_takes_no_memory(tmp_path):
    claim = header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**33},), }}") + b"1234"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", claim)
    tracemalloc.start()
    try:
        with pytest.raises(HalfulpError, match="claims more than the file holds"):
            read_npz(tmp_path / "x.npz")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_pb(tmp_path):
    path = tmp_path / "x.pb"
    path.write_bytes(numpy_helper.from_array(np.array([1.5], ml_dtypes.bfloat16)).SerializeToString())
    assert read_pb(path) == np.array([1.5], ml_dtypes.bfloat16)
    path.write_bytes(bytes(9))
    with pytest.raises(HalfulpError, match=r"x\.pb: too large\s+expected: at most 8 bytes"):
        read_whole(path, 8)


# --- writing ------------------------------------------------------------------------------------


def test_replacing_is_all_or_nothing(tmp_path):
    path = tmp_path / "z"
    with replacing(path) as temporary:
        temporary.write_text("first")
        assert not path.exists()
    assert path.read_text() == "first"
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    path.chmod(0o640)
    with contextlib.suppress(KeyboardInterrupt), replacing(path) as temporary:
        temporary.write_text("second")
        raise KeyboardInterrupt
    assert path.read_text() == "first"
    with replacing(path) as temporary:
        temporary.write_text("third")
    assert path.read_text() == "third"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["z"]


def test_replacing_follows_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "z").symlink_to("there/z")
    with replacing(tmp_path / "z") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "z").is_symlink()
    assert (tmp_path / "there" / "z").read_text() == "new"


def test_what_can_not_be_replaced(tmp_path):
    for path, words in (
        (tmp_path, "can't be written: not a plain file"),
        (Path("/dev/null"), "/dev/null: can't be written: not a plain file"),
        (Path("none/z"), "none/z: can't be written: No such file or directory"),
    ):
        with pytest.raises(HalfulpError, match=words), replacing(path):
            pass
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ENOSPC, HalfulpError, "z: can't be written: No space left"),
        (errno.EIO, OSError, "another file"),
    ],
)
def test_a_full_disk_is_told_with_the_file(tmp_path, number, kind, words):
    (tmp_path / "z").write_text("old")
    with pytest.raises(kind, match=words), replacing(tmp_path / "z"):
        raise OSError(number, os.strerror(number), "another file")
    assert (tmp_path / "z").read_text() == "old"
    assert os.listdir(tmp_path) == ["z"]
