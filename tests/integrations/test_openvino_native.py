"""Power and PReLU of f32, f16 and bf16 in C++ in OpenVINO: the bits of the operators in Python, and of hu.op."""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from tests.house.builds import FOLDER, locked, tool
from tests.oracle.grids import pow_grid, prelu_grid

import halfulp as hu
from halfulp.types import TYPES

ov: Any = pytest.importorskip("openvino")
o: Any = pytest.importorskip("openvino.opset13")
plugin: Any = pytest.importorskip("halfulp.integrations.openvino")
native = operators = plugin
engine: Any = pytest.importorskip("halfulp.integrations.openvino.engine")

POWER, PRELU = hu.op("openvino.Power-1"), hu.op("openvino.PReLU-1")


@pytest.fixture(scope="module", autouse=True)
def _built() -> Iterator[None]:
    """The library is built once for all runs of the tests, and used in this module only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(FOLDER))
        patch.setenv("CXX", str(tool("g++")))
        FOLDER.mkdir(parents=True, exist_ok=True)
        with locked(FOLDER / "openvino"):
            assert native.build() == native.build()
        yield
    native._factory.cache_clear()


def answer(make: Any, *feeds: np.ndarray, dynamic: bool = False) -> np.ndarray:
    kind = getattr(ov.Type, TYPES[feeds[0].dtype.name].openvino)
    x, y = (o.parameter([-1] * feed.ndim if dynamic else list(feed.shape), kind) for feed in feeds)
    x.output(0).set_names({"0"})
    y.output(0).set_names({"1"})
    model = plugin.replace(ov.Model([make(x, y)], [x, y]), every_node=True)
    (node,) = (node for node in model.get_ordered_ops() if "Halfulp" in node.get_type_name())
    assert type(node) is ov.Node, "in Python"
    model.outputs[0].get_tensor().set_names({"result"})
    return engine.Compiled(model, "net")({str(i): feed for i, feed in enumerate(feeds)})["result"]


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_powers_and_prelu(name, dynamic):
    for grid, make, right in (
        (pow_grid(name, name, np.random.default_rng(6)), o.power, POWER),
        (prelu_grid(name, np.random.default_rng(7)), o.prelu, PRELU),
    ):
        x, y = (np.concatenate([getattr(part, side) for part in grid]) for side in "xy")
        assert answer(make, x, y, dynamic=dynamic).tobytes() == right(x, y).tobytes()


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_that_the_plugin_holds_in_f32(name):
    """The sum keeps the plugin from leaving these tensors in their type."""
    x = np.random.default_rng(6).uniform(0.1, 9, 1000).astype(TYPES[name].dtype)
    half = x.dtype.type(0.7)

    def make(x: Any, y: Any) -> Any:
        return o.add(o.power(o.add(x, y), o.constant(operators.tensor_of(half))), y)

    powers = POWER(x, half)
    assert answer(make, x, np.zeros_like(x)).tobytes() == powers.tobytes()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(3,), (1,), (4,), (3, 1, 1), (2, 3, 1, 4)])
def test_slopes(shape, dynamic):
    rng = np.random.default_rng(8)
    x, slope = (rng.normal(size=dims).astype(np.float32) for dims in ((2, 3, 5, 4), shape))
    assert answer(o.prelu, x, slope, dynamic=dynamic).tobytes() == PRELU(x, slope).tobytes()


@pytest.mark.parametrize("shapes", [((2, 1, 3), (5, 1)), ((), (3,)), ((0, 3), (1,)), ((200, 1000), ())])
def test_shapes(shapes):
    rng = np.random.default_rng(9)
    x, y = (rng.uniform(0.1, 3, size=dims).astype(np.float32) for dims in shapes)
    assert answer(o.power, x, y, dynamic=True).tobytes() == POWER(x, y).tobytes()


def test_shapes_that_do_not_go_together():
    x, slope = np.zeros((2, 3), np.float32), np.zeros(5, np.float32)
    with pytest.raises(hu.ModelError, match=r"openvino\.PReLU-1\.C"):
        answer(o.prelu, x, slope)
    with pytest.raises(hu.ModelError, match="halfulp: The operands are not broadcastable"):
        answer(o.prelu, x, slope, dynamic=True)


def test_files_are_those_of_the_operators_in_python(tmp_path):
    x = o.parameter([2], np.float32, name="x")
    model = ov.Model([o.power(x, o.constant(np.float32([2.5]), name="y"), name="p")], [x])
    other = model.clone()
    plugin.replace(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "_factory", lambda: None)
        plugin.replace(other)
    for name, each in (("cpp", model), ("python", other)):
        ov.save_model(each, tmp_path / f"{name}.xml", compress_to_fp16=False)
    made = [(tmp_path / f"{name}.xml").read_text().partition("<rt_info>")[0] for name in ("cpp", "python")]
    assert made[0] == made[1]


def test_files_that_the_library_reads(tmp_path):
    """It knows no integers; the operators that were registered first read a file."""
    for kind in (np.float32, np.int32):
        x = o.parameter([2], kind)
        model = plugin.replace(ov.Model([o.power(x, o.constant(np.array(3, kind)))], [x]), every_node=True)
        ov.save_model(model, tmp_path / f"{kind.__name__}.xml", compress_to_fp16=False)

    def cubes(kind: type, *extensions: Any) -> list[float]:
        core = ov.Core()
        for extension in extensions:
            core.add_extension(extension)
        read = core.read_model(tmp_path / f"{kind.__name__}.xml")
        numbers = np.array([3, -5], kind)
        return list(core.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([numbers])[0])

    library = native.build()
    assert cubes(np.float32, library) == [27, -125]
    for extensions in ([library], [library, *plugin.OPERATORS]):
        with pytest.raises(
            RuntimeError, match=r"has operands of i32,i32, and .* bf16 only; .*OPERATORS before"
        ):
            cubes(np.int32, *extensions)
    assert cubes(np.int32, *plugin.OPERATORS, library) == [27, -125]


def test_without_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(hu.UnsupportedError, match="no-such-compiler: no compiler for C"):
        native.build()
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho a note >&2; echo an error >&2; exit 1\n")
    failing.chmod(0o755)
    for compiler, words in (("false", r"\.cpp: $"), (str(failing), r"\.cpp: an error$")):
        monkeypatch.setenv("CXX", compiler)
        with pytest.raises(hu.UnsupportedError, match=f"{compiler} does not compile .*{words}"):
            native.build()
    with monkeypatch.context() as patch:
        patch.delenv("CXX")
        patch.setenv("PATH", "")
        with pytest.raises(hu.UnsupportedError, match=r"^c\+\+: no compiler"):
            native.build()
        patch.setattr(native.platform, "system", lambda: "Darwin")
        with pytest.raises(hu.UnsupportedError, match="on Linux"):
            native.build()
    for part in ("libs", "include"):
        (tmp_path / part).mkdir()
        (tmp_path / part / part).symlink_to(native._FOLDER / part)
        with monkeypatch.context() as patch:
            patch.setattr(native, "_FOLDER", tmp_path / part)
            with pytest.raises(hu.UnsupportedError, match="need its headers and"):
                native.build()


def test_two_threads_build_at_once(monkeypatch, tmp_path):
    """Each writes a file of its own, which then replaces the library."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_factory", cache(lambda: None))
    both = Barrier(2)

    def compile_slowly(command: list[str], **_: Any) -> Any:
        Path(command[command.index("-o") + 1]).write_bytes(b"library")
        both.wait(timeout=30)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(native.subprocess, "run", compile_slowly)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: native.build(), range(2))
    assert first == second
    assert [path.name for path in (tmp_path / "halfulp").iterdir()] == [Path(first).name]
