"""``halfulp apply``: each piece gives what the whole gives, in bounded memory."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app
from halfulp.cli import apply as verb
from halfulp.cli.apply import expanded, regions, window
from halfulp.models.files import open_npy

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    # Many pieces of odd sizes, as a large array has.
    monkeypatch.setattr(sys.modules["halfulp.cli.apply"], "_PIECE", 7)


def applied(folder: Path, id: str, *arrays: np.ndarray, options: tuple[str, ...] = ()) -> np.ndarray:
    """Save the operands, apply the operator to the files, return the output's array."""
    files = []
    for name, array in zip("xy", arrays, strict=False):
        np.save(folder / f"{name}.npy", array)
        files.append(str(folder / f"{name}.npy"))
    result = CliRunner().invoke(app, ["apply", id, *files, "-o", str(folder / "z.npy"), *options])
    assert result.exit_code == 0, result.output
    assert sorted(os.listdir(folder)) == sorted({*(Path(f).name for f in files), "z.npy"})
    return np.load(folder / "z.npy")


X = RNG.normal(size=(3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("id", "inputs", "want"),
    [
        ("onnx.Pow-15", ["x.npy", "2"], lambda x: hu.pow(x, 2)),
        ("onnx.Pow-15", ["x.npy", "0.1"], lambda x: hu.pow(x, 0.1)),
        ("onnx.Pow-15", ["1.1", "x.npy"], lambda x: hu.pow(1.1, x)),
        ("onnx.Pow-7", ["x.npy", "3"], lambda x: hu.pow(x, 3)),
        ("onnx.PRelu-16", ["--", "x.npy", "-0.25"], lambda x: hu.prelu(x, -0.25)),
        ("openvino.Power-1", ["x.npy", "2"], lambda x: hu.pow(x, 2)),
    ],
)
def test_a_number_beside_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: str, inputs: list[str], want: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for array in (X, np.asfortranarray(X), X[0, 0, 0]):
        np.save("x.npy", array)
        result = CliRunner().invoke(app, ["apply", "-o", "z.npy", id, *inputs])
        assert result.exit_code == 0, result.output
        assert np.load("z.npy").tobytes() == np.ascontiguousarray(want(array)).tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("id", "y", "attributes"),
    [
        ("onnx.Pow-15", RNG.integers(-3, 4, (4, 1)).astype(np.int16), {}),
        ("onnx.Pow-15", RNG.normal(size=(2, 1, 1, 1)).astype(np.float64), {}),
        ("onnx.Pow-15", np.float32(3), {}),
        ("onnx.Pow-1", RNG.normal(size=(4,)).astype(np.float32), {"broadcast": 1, "axis": 1}),
        ("onnx.Pow-1", RNG.normal(size=(3, 4)).astype(np.float32), {"broadcast": 1, "axis": 0}),
        ("onnx.Pow-1", RNG.normal(size=(1, 1)).astype(np.float32), {"broadcast": 1}),
        ("onnx.Pow-1", RNG.normal(size=(3, 4, 5)).astype(np.float32), {}),
        ("onnx.PRelu-1", RNG.normal(size=(4,)).astype(np.float32), {}),
        ("onnx.PRelu-6", RNG.normal(size=(3, 1, 5)).astype(np.float32), {}),
        ("onnx.PRelu-16", RNG.normal(size=(5,)).astype(np.float32), {}),
        ("openvino.Power-1", RNG.normal(size=(5,)).astype(np.float32), {"auto_broadcast": "numpy"}),
        ("openvino.PReLU-1", RNG.normal(size=(4,)).astype(np.float32), {}),
        ("openvino.PReLU-1", RNG.normal(size=(5,)).astype(np.float32), {}),
        ("directml.ELEMENT_WISE_POW-3_0", RNG.normal(size=(3, 4, 5)).astype(np.float32), {}),
        (
            "directml.ELEMENT_WISE_POW-3_0",
            RNG.normal(size=(3, 4, 5)).astype(np.float32),
            {"ScaleBias": (2.0, 1.0)},
        ),
        ("directml.ACTIVATION_PARAMETERIZED_RELU-3_0", RNG.normal(size=(3, 4, 5)).astype(np.float32), {}),
        ("directml.ELEMENT_WISE_CONSTANT_POW-3_0", None, {"Exponent": 0.5}),
    ],
)
def test_pieces_give_what_the_whole_gives(
    tmp_path: Path, id: str, y: object, attributes: dict, order: str
) -> None:
    arrays = [X] if y is None else [X, np.asarray(y)]
    want = hu.op(id)(*arrays, **attributes)
    texts = {k: ",".join(map(str, v)) if isinstance(v, tuple) else v for k, v in attributes.items()}
    options = tuple(part for k, v in texts.items() for part in ("--attr", f"{k}={v}"))
    got = applied(tmp_path, id, *(np.asarray(a, order=order) for a in arrays), options=options)
    assert got.dtype == want.dtype
    assert got.tobytes() == want.tobytes()


def test_a_slope_is_not_taken_for_another_in_a_piece(tmp_path: Path) -> None:
    """Per channel is decided by the whole: here pieces have as many channels as the slope elements."""
    x = RNG.normal(size=(2, 7, 5)).astype(np.float32)
    slope = RNG.normal(size=(5,)).astype(np.float32)
    got = applied(tmp_path, "openvino.PReLU-1", x, slope)
    assert got.tobytes() == hu.op("openvino.PReLU-1")(x, slope).tobytes()


@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_small_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    got = applied(tmp_path, "onnx.Pow-15", np.full(shape, 3.0), np.float64(2))
    assert got.shape == shape
    np.testing.assert_array_equal(got, 9)


def test_types_that_numpy_has_no_name_for(tmp_path: Path) -> None:
    x = np.array([1.5, 2], ml_dtypes.bfloat16)
    got = applied(tmp_path, "onnx.Pow-15", x, x, options=("--type", "x=bfloat16", "--type", "Y=bfloat16"))
    assert got.view(ml_dtypes.bfloat16).tobytes() == hu.pow(x, x).tobytes()


def test_byte_order(tmp_path: Path) -> None:
    got = applied(tmp_path, "onnx.Pow-15", X.astype(">f4"), X.astype(">f4"))
    assert got.tobytes() == hu.pow(X, X).tobytes()


def test_the_output_may_replace_an_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    path = str(tmp_path / "x.npy")
    arguments = ["apply", "onnx.Pow-15", path, path, "-o", path]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 2
    assert "x.npy: is an input, which would be replaced; name another file, or add --force" in refused.stderr
    assert np.load(path).tobytes() == X.tobytes()
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    assert np.load(path).tobytes() == hu.pow(X, X).tobytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["onnx.Pov-15", "x.npy", "x.npy"], "UnsupportedError: no operator version onnx.Pov-15"),
        (["onnx.Pow-15", "x.npy"], "onnx.Pow-15 takes 2 inputs"),
        (["onnx.Pow-15", "x.npy", "x.npy", "x.npy"], "onnx.Pow-15 takes 2 inputs"),
        (["onnx.Pow-15", "x.npy", "none.npy"], "none.npy: can't be read: No such file"),
        (["onnx.Pow-15", "x.npy", "."], "not a plain file"),
        (["onnx.Pow-15", "2", "3.5"], "one of the inputs must be a .npy file"),
        (["onnx.Pow-7", "1e999", "x.npy", "--attr", "axis=1"], "SpecError onnx.Pow-7.C"),
        (["onnx.Pow-15", "x.npy", "x.npy", "--attr", "axis=1"], "SpecError onnx.Pow-15.C"),
        (["onnx.Pow-1", "x.npy", "x.npy", "--attr", "axis"], "an attribute must be NAME=VALUE"),
        (["onnx.Pow-1", "x.npy", "x.npy", "--attr", "axis=one"], "attribute axis must be of type INT"),
        (["onnx.Pow-1", "x.npy", "y.npy", "--attr", "broadcast=1"], "SpecError onnx.Pow-1.C"),
        (["onnx.Pow-15", "x.npy", "x.npy", "--type", "z=bfloat16"], "a type must be NAME=TYPE"),
        (["onnx.Pow-15", "x.npy", "x.npy", "--type", "x"], "a type must be NAME=TYPE"),
        (["onnx.Pow-15", "x.npy", "x.npy", "--type", "x=bfloat61"], "no element type bfloat61"),
        (["onnx.Pow-15", "x.npy", "x.npy", "--type", "y=bfloat16"], "holds another type than --type says"),
        (["onnx.Pow-15", "x.npy", "x.npy", "-o", "-"], "-: only text is written to standard output"),
        (["onnx.Pow-15", "x.npy", "text.npy"], "not a .npy file"),
        (["onnx.PRelu-16", "y.npy", "x.npy"], "SpecError onnx.PRelu-16.C"),
        (["directml.ELEMENT_WISE_CONSTANT_POW-3_0", "x.npy"], "Exponent is required"),
    ],
)
def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.save("y.npy", X[0, :, 0])
    Path("text.npy").write_text("1 2 3")
    before = sorted(os.listdir())
    result = CliRunner().invoke(app, ["apply", "-o", "z.npy", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(os.listdir()) == before  # nothing half-written


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """Two operands and a result of 256 MiB each, under a limit on this process's memory."""
    size = 1 << 26
    for name in ("x.npy", "y.npy"):
        np.lib.format.open_memmap(tmp_path / name, "w+", np.float32, (size,)).flush()
    code = "import resource, sys; from halfulp.cli import main; main()"
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20)); " + code
    arguments = ["apply", "onnx.Pow-15", "x.npy", "y.npy", "-o", "z.npy"]
    done = subprocess.run(
        [sys.executable, "-c", limited, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "HALFULP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert (np.load(tmp_path / "z.npy", mmap_mode="r")[:: 1 << 16] == 1).all()


# The output's first part is about to be written: its temporary file is there.
INTERRUPTED = """
import os, signal
from halfulp.cli import main
from halfulp.models.files import NpyFile

def map_part(file, start, shape, mode="r"):
    if mode == "r+":
        assert len(os.listdir()) == 2
        os.kill(os.getpid(), signal.SIGINT)
    return map_of_file(file, start, shape, mode)

map_of_file, NpyFile.map_part = NpyFile.map_part, map_part
signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent may have had it ignored
main()
"""


def test_ctrl_c_is_quiet_and_leaves_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(1000))
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "apply", "onnx.Pow-15", "x.npy", "x.npy", "-o", "z.npy"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 130
    assert done.stderr == b""
    assert os.listdir(tmp_path) == ["x.npy"]


def test_it_is_the_verb() -> None:
    assert callable(verb)


# --- cutting arrays into pieces ---


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(1, 200))
def test_regions_cover_everything_once_in_order(dims: list[int], limit: int) -> None:
    shape = tuple(dims)
    places = np.arange(math.prod(shape)).reshape(shape)
    seen = []
    for region in regions(shape, limit):
        piece = places[region]
        assert piece.size <= limit
        seen.extend(piece.ravel().tolist())
    assert seen == list(range(math.prod(shape)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("shape", "own", "out"),
    [
        ((4, 5), (4, 5), (4, 5)),
        ((4, 5), (4, 5), (3, 4, 5)),
        ((4,), (4, 1), (3, 4, 5)),
        ((3, 1, 5), (3, 1, 5), (3, 4, 5)),
        ((3, 4), (3, 4, 1), (3, 4, 5)),
        ((), (), (3, 4, 5)),
        ((1, 1), (), (3, 4, 5)),
        ((3, 5), (3, 1, 5), (3, 4, 5)),
    ],
)
def test_windows_of_files(tmp_path: Path, order: str, shape: tuple, own: tuple, out: tuple) -> None:
    array = np.arange(math.prod(shape)).reshape(shape, order=order)
    np.save(tmp_path / "x.npy", array)
    file = open_npy(tmp_path / "x.npy")
    want = np.broadcast_to(array.reshape(own), out)
    for limit in (1, 3, 7, 20, 1000):
        for region in regions(out, limit):
            part = window(file, own, region)
            np.testing.assert_array_equal(np.broadcast_to(part, want[region].shape), want[region])


def test_expanded_never_copies() -> None:
    array = np.asfortranarray(np.zeros((3, 4)))
    assert np.shares_memory(expanded(array, (3, 1, 4, 1)), array)
