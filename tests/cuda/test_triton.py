"""The powers of Triton's kernels: their PTX runs on the processor, and Triton compiles kernels without a GPU."""

import ctypes
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from tests.cuda.build import FLAGS, FOR_AVX2, HERE, NVRTC
from tests.cuda.ptx_to_cpp import translate
from tests.cuda.test_ptx import operations
from tests.house.builds import FOLDER, ROOT, digest, outdated, run, sources, tool
from tests.oracle.grids import random_bits

import halfulp as hu
from halfulp import reference
from halfulp.conformance.cases.values import Pairs, hard_pairs, joined, outer
from halfulp.integrations import triton as door
from halfulp.types import same_bits

MAKE = ROOT / "tools" / "make_bitcode.py"
KERNELS = {"float64": 0, "float32": 1, "float64_integers": 2, "float32_integers": 3}
RUN = """
thread_local Index grid_dim, block_dim, block_index, thread_index;
extern "C" void run(int kernel, uint64_t x, uint64_t y, uint64_t z, uint32_t n) {
    void* parameters[] = {&x, &y, &z, &n};
    for (block_index.x = 0; block_index.x < (n + 127) / 128; ++block_index.x)
        for (thread_index.x = 0; thread_index.x < 128; ++thread_index.x)
            kernels_of_ptx[kernel].run_thread(parameters);
}
"""
# Every fusion is allowed that the bitcode allows.
CLANG = [
    *(sys.executable, "-m", "ziglang", "clang", "--target=nvptx64-nvidia-cuda", "-march=sm_80", "-O3", "-S"),
    *("-Xclang", "-target-feature", "-Xclang", "+ptx70", "-nostdinc++", "-ffp-contract=fast"),
]


def make(base: Path, *options: str) -> None:
    """Make the bitcode, kernels with it as PTX, and these as a library for the processor."""
    bitcode, ptx, source, library = (base.with_suffix(suffix) for suffix in (".bc", ".ptx", ".cpp", ".so"))
    tool_path = {"PYTHONPATH": str(NVRTC)}
    run(sys.executable, MAKE, bitcode, *options, **tool_path)
    link = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", bitcode]
    run(*CLANG, *link, HERE / "powers.cpp", "-o", ptx, **tool_path)
    source.write_text(translate(ptx.read_text()) + RUN)
    run(tool("g++"), *FLAGS, *FOR_AVX2, "-shared", source, "-o", library)


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return the folder with two sets of such files; in one every undecided power takes the last phase."""
    if find_spec("ziglang") is None and not (NVRTC / "ziglang").exists():
        pytest.skip("the package ziglang is not installed: make test")
    folder = FOLDER / "triton"
    own = (HERE / name for name in ("powers.cpp", "ptx_to_cpp.py", "ptx_machine.h"))
    with outdated(folder, digest(sources(), MAKE, *own)) as is_outdated:
        if is_outdated:
            make(folder / "powers")
            make(folder / "last_phase", "-DHALFULP_LAST_PHASE")
    return folder


def computed(
    folder: Path, kernel: str, x: np.ndarray, y: np.ndarray, *, library: str = "powers"
) -> np.ndarray:
    run, z = ctypes.CDLL(str(folder / f"{library}.so")).run, np.empty_like(x)
    run(KERNELS[kernel], *(ctypes.c_uint64(a.ctypes.data) for a in (x, y, z)), len(x))
    return z


def operands(name: str, count: int, rng: np.random.Generator) -> Pairs:
    """Return ordinary operands, any bits, special values, exact powers, ties, and every hard case of the type."""
    dtype = np.dtype(name)
    special = np.array([0, 1, np.inf, np.nan, 2, 3, 0.5, 1.5, 1e30, 1e-30, 1e-45, 9, 2.25, 27], dtype)
    special = np.concatenate([special, -special])
    ties = np.arange(1, 500, dtype=dtype) / 8, np.array([2, 3, 4, 5, 7, 0.5, 0.25, 1.5, 2.5, -1, 0.75], dtype)
    ordinary = np.exp(rng.uniform(-3, 3, count)).astype(dtype), rng.uniform(-9, 9, count).astype(dtype)
    any_bits = random_bits(name, rng, count), random_bits(name, rng, count)
    grids = outer(special, special), outer(*ties)
    return joined(Pairs(*ordinary), Pairs(*any_bits), hard_pairs(name, name), *grids)


@pytest.mark.parametrize("name", ["float64", "float32"])
def test_the_bits_of_hu_pow(folder, name, rng):
    x, y = operands(name, 20_000, rng)
    assert same_bits(computed(folder, name, x, y), hu.pow(x, y)).all()
    n = np.resize(
        np.concatenate([np.arange(-40, 40), [-(2**31), 2**31 - 1, 2**24 + 1]]).astype(np.int32), x.size
    )
    assert same_bits(computed(folder, f"{name}_integers", x, n), hu.pow(x, n)).all()


@pytest.mark.parametrize("name", ["float64", "float32"])
def test_hard_cases_beside_mpfr(folder, name):
    """By all phases, and by the last one."""
    x, y = hard_pairs(name, name)
    assert len(x) > 100
    for library in ("powers", "last_phase"):
        assert same_bits(computed(folder, name, x, y, library=library), reference.pow(x, y)).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["float64", "float32"])
def test_many_powers(folder, name, rng):
    x, y = operands(name, 10_000_000, rng)
    assert same_bits(computed(folder, name, x, y), hu.pow(x, y)).all()


def test_every_operation_names_its_rounding(folder):
    """An assembler fuses mul.f64 and add.f64, but not mul.rn.f64 and add.rn.f64."""
    names = operations((folder / "powers.ptx").read_text())
    assert {"add.rn.f64", "mul.rn.f64", "fma.rn.f64"} <= names
    assert not [
        n for n in names if re.match(r"(add|sub|mul|mad|fma|div|sqrt)\.(?!rn\.).*f\d+$|.*(ftz|approx)", n)
    ]


def test_the_bitcode_is_small(folder):
    assert (folder / "powers.bc").stat().st_size < 60_000


def test_kernels_of_triton(folder, monkeypatch):
    language = pytest.importorskip("triton.language")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.language.extra import libdevice

    @triton.jit
    def powers(x, y, z):
        language.store(z, libdevice.pow(language.load(x), language.load(y)))

    def ptx(kind: str) -> str:
        source = triton.compiler.ASTSource(powers, signature=dict.fromkeys("xyz", f"*{kind}"))
        return triton.compile(
            source, target=GPUTarget("cuda", 80, 32), options={"enable_fp_fusion": True}
        ).asm["ptx"]

    monkeypatch.setattr(door, "BITCODE", folder / "powers.bc")
    for kind in ("fp32", "fp64"):
        before = ptx(kind)
        powers.device_caches[0] = ()
        door.enable()
        text = ptx(kind)
        assert not powers.device_caches
        door.disable()
        assert ptx(kind) == before != text
        assert "pow_in_all_phases" in text
        assert not re.search(r"(add|sub|mul|mad|fma|div|sqrt)\.(?!rn\.)[\w.]*f(32|64)|ftz|approx", text)


def test_a_build_without_the_bitcode(monkeypatch):
    monkeypatch.setattr(door, "BITCODE", None)
    with pytest.raises(hu.HalfulpError, match="no powers for Triton: it was built without HALFULP_CUDA=1"):
        door.enable()
    with pytest.raises(hu.HalfulpError, match="not enabled"):
        door.disable()
