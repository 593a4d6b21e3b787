"""halfulp.wasm, by make wasm: the bits of hu.pow under Node and wasmtime, and a file that a page can load."""

import gzip
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.conformance.report.browser import chromium, requests, show
from tests.house.builds import FOLDER, ROOT, digest, outdated, run, sources, tool

import halfulp as hu
from halfulp.conformance.cases.values import Pairs, Random, cast, hard_pairs, joined
from halfulp.doors import DIGESTS

HALF = 500_000
MAKE = ROOT / "tools" / "make_wasm.py"
NODE = """
import { readFileSync, writeFileSync } from "node:fs";
const [folder, name] = process.argv.slice(1), { load } = await import(`${folder}/halfulp.mjs`);
const types = { float64: Float64Array, float32: Float32Array, float16: Uint16Array };
const read = (file) => new types[name](new Uint8Array(readFileSync(file)).buffer);
const { pow } = await load(readFileSync(`${folder}/halfulp.wasm`));
writeFileSync(process.argv[5], pow(read(process.argv[3]), read(process.argv[4])));
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return the folder with what tools/make_wasm.py makes of the sources as they are."""
    pytest.importorskip("ziglang", reason="the package ziglang is not installed: make wasm")
    folder = FOLDER / "wasm"
    with outdated(folder, digest(sources(), MAKE)) as is_outdated:
        if is_outdated:
            run(sys.executable, MAKE, folder)
    return folder


@pytest.fixture(scope="module", params=["float64", "float32", "float16"])
def operands(request: pytest.FixtureRequest) -> Pairs:
    """Return ordinary operands, any bits, and every hard case of the type."""
    name, random = request.param, Random("wasm")
    ordinary = (cast(part, name) for part in (random.spread(-4, 4, HALF), random.uniform(-9, 9, HALF)))
    any_bits = Pairs(random.bits(name, HALF), random.bits(name, HALF))
    return joined(hard_pairs(name, name), Pairs(*ordinary), any_bits)


def by_node(folder: Path, x: np.ndarray, y: np.ndarray, place: Path) -> bytes:
    files = [place / name for name in ("x", "y", "z")]
    for array, file in zip((x, y), files, strict=False):
        array.tofile(file)
    run(tool("node"), "--input-type=module", "-e", NODE, folder, x.dtype.name, *files)
    return files[2].read_bytes()


def by_wasmtime(folder: Path, x: np.ndarray, y: np.ndarray, _: Path) -> bytes:
    wasmtime = pytest.importorskip("wasmtime", reason="the package wasmtime is not installed: make wasm")
    engine = wasmtime.Engine()
    store, module = wasmtime.Store(engine), wasmtime.Module.from_file(engine, str(folder / "halfulp.wasm"))
    assert module.imports == []
    names = wasmtime.Instance(store, module, []).exports(store)
    memory, heap, size = names["memory"], names["__heap_base"].value(store), x.nbytes
    memory.grow(store, 3 * size // 65536 + 1)
    places = [heap + k * size for k in range(3)]
    for array, place in zip((x, y), places, strict=False):
        memory.write(store, array.tobytes(), place)
    names[f"pow_{x.dtype}"](store, *places, len(x))
    # One number has the bits of an array, those of a NaN aside, which engines may change.
    name = {"float64": "pow", "float32": "powf"}.get(x.dtype.name)
    some = np.arange(0, len(x), 97)
    if name:
        ones = [names[name](store, a, b) for a, b in zip(x[some].tolist(), y[some].tolist(), strict=True)]
        assert np.array_equal(np.array(ones, x.dtype), hu.pow(x[some], y[some]), equal_nan=True)
    return bytes(memory.read(store, places[2], places[2] + size))


@pytest.mark.parametrize("powers", [by_node, by_wasmtime])
def test_bits(powers, folder, operands, tmp_path):
    assert powers(folder, *operands, tmp_path) == hu.pow(*operands).tobytes()


def test_the_page_computes_the_digest(folder):
    """It is one file, and shows the digests of halfulp doors; the browser's own powers differ."""
    with chromium() as driver:
        show(driver, folder / "digest.html")
        for _ in range(100):
            rows = [row.text.split() for row in driver.find_elements("css selector", "#results tr")]
            if len(rows) == 4:
                break
            time.sleep(0.3)
        assert [row[:4] for row in rows[:2]] == [
            ["halfulp.wasm", dtype, digest, "right"] for dtype, digest in DIGESTS.items()
        ]
        assert rows[2][:2] == ["**", "float64"]
        assert rows[2][3] == "differs"
        assert requests(driver) == [(folder / "digest.html").as_uri()]


def test_size(folder):
    data = (folder / "halfulp.wasm").read_bytes()
    assert len(data) <= 180_000
    assert len(gzip.compress(data)) <= 60_000


def test_the_module_refuses_other_operands(folder):
    program = f"""
    import {{ readFileSync }} from "node:fs";
    import {{ load }} from "{folder}/halfulp.mjs";
    const {{ pow, powf }} = await load(readFileSync("{folder}/halfulp.wasm"));
    console.log(pow(2, 0.5), powf(2, 0.5), pow(new Float32Array(0), new Float32Array(0)).length);
    const two = new Float32Array(2);
    for (const pair of [[2, [1]], [two, new Float64Array(2)], [two, new Float32Array(3)]])
      try {{ pow(...pair); }} catch (error) {{ console.log(error.name); }}
    """
    done = subprocess.run(
        [tool("node"), "--input-type=module", "-e", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1.4142135623730951", "1.4142135381698608", "0", *["TypeError"] * 3]
