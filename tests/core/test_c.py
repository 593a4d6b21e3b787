"""libhalfulp by its C interface: from programs in C and C++ and by ctypes."""

import ctypes
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.house.builds import ROOT, run, tool

import halfulp as hu
from halfulp.conformance.cases.values import hard_pairs, joined, outer
from halfulp.types import TYPES, codes, same_bits

HEADER = Path(hu.get_include(), "halfulp.h").read_text()
EXAMPLES = ROOT / "examples" / "c"
LIBM = Path(__file__).parent / "libm"
LIBRARY = ctypes.CDLL(hu.get_library())
LIBRARY.halfulp_type_name.restype = LIBRARY.halfulp_status_text.restype = ctypes.c_char_p
LIBRARY.halfulp_version.restype = ctypes.c_char_p
LIBRARY.halfulp_memo_new.restype = ctypes.c_void_p
LIBRARY.halfulp_memo_free.argtypes = [ctypes.c_void_p]
for _name, _real in (("halfulp_powf", ctypes.c_float), ("halfulp_powd", ctypes.c_double)):
    getattr(LIBRARY, _name).argtypes, getattr(LIBRARY, _name).restype = [_real, _real], _real

WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
PARALLEL_FOR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, WORK, ctypes.c_void_p, ctypes.c_size_t)
KEEP_GOING = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


Array: type[ctypes.Structure] = runpy.run_path(str(EXAMPLES / "by_ctypes.py"))["Array"]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("threads", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("bias", ctypes.c_float),
        ("parallel_for", PARALLEL_FOR),
        ("parallel_context", ctypes.c_void_p),
        ("keep_going", KEEP_GOING),
        ("keep_going_context", ctypes.c_void_p),
        ("memo", ctypes.c_void_p),
    ]


def constants() -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"HALFULP_(\w+) = (\d+)", HEADER)}


STATUS = constants()


def array(values: np.ndarray) -> ctypes.Structure:
    kind = LIBRARY.halfulp_type_of_name(values.dtype.name.encode())
    shape, strides = ((ctypes.c_ssize_t * values.ndim)(*of) for of in (values.shape, values.strides))
    swapped = not values.dtype.isnative
    return Array(values.ctypes.data, kind, values.ndim, shape, strides, swapped)


def call(function: str, x: np.ndarray, y: np.ndarray, out: np.ndarray, **options: object) -> int:
    given = Options(size=ctypes.sizeof(Options), **options)
    status: int = getattr(LIBRARY, function)(*map(ctypes.byref, map(array, (x, y, out))), ctypes.byref(given))
    return status


def test_the_header_numbers_the_types_by_their_names():
    numbers = constants()
    for number, name in enumerate(TYPES):
        assert numbers[name.upper()] == number == LIBRARY.halfulp_type_of_name(name.encode())
        assert LIBRARY.halfulp_type_name(number) == name.encode()
    assert LIBRARY.halfulp_type_name(len(TYPES)) is None
    assert LIBRARY.halfulp_type_of_name(b"float") == -1


def test_each_status_has_a_text_and_the_library_a_version():
    texts = [LIBRARY.halfulp_status_text(number) for number in range(9)]
    assert len(set(texts)) == 9
    assert texts[8] == b"No status of halfulp has this number."
    assert LIBRARY.halfulp_version().decode() in (ROOT / "pyproject.toml").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="what a library exports is listed by nm")
def test_it_exports_the_header_and_the_doors_of_onnxruntime():
    listed = run(tool("nm"), "-D", "--defined-only", hu.get_library())
    exported = {name.partition("@")[0] for name in re.findall(r" T (\S+)", listed)}
    declared = set(re.findall(r"\b(halfulp_\w+)\(", HEADER))
    assert exported - {"RegisterCustomOps", "CreateEpFactories", "ReleaseEpFactory"} == declared
    assert all("@@HALFULP_1" in line for line in listed.splitlines() if " T " in line)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "int4", "uint64", "float64"])
def test_strides_swapped_bytes_and_broadcasting(name):
    rng = np.random.default_rng(2)
    dtype = TYPES[name].dtype
    x = rng.integers(0, 4, (7, 1, 6)).astype(dtype)[::-1, :, ::2].transpose(2, 1, 0)
    y = rng.integers(0, 3, (5, 1)).astype(np.float32 if "float" in name else np.uint8)
    if dtype.isnative and dtype.kind in "fiu" and name not in ("bfloat16", "int4"):
        x = x.astype(x.dtype.newbyteorder())
    out = np.zeros((3, 5, 7), dtype)[:, ::-1]
    assert call("halfulp_pow", x, y, out) == 0
    assert (codes(out) == codes(hu.pow(x, y))).all()
    slope = x[:, 0]
    out = np.zeros((3, 3, 7), dtype)
    wide = np.broadcast_to(x, out.shape)
    assert call("halfulp_prelu", wide, slope, out) == 0
    assert (codes(out) == codes(hu.prelu(wide, slope))).all()


def test_64_axes():
    x = np.full((1,) * 63 + (5,), 3.0)
    assert call("halfulp_pow", x, np.float64([2.0]), x) == 0
    assert (x == 9).all()


def refused() -> Iterator[tuple[str, Callable[[], int], str]]:
    a, wide = np.ones(4, np.float32), np.ones((2, 4), np.float32)
    ints, out = np.ones(4, np.int32), np.ones(4, np.float32)
    of = array(a)
    yield "null", lambda: LIBRARY.halfulp_pow(None, ctypes.byref(of), ctypes.byref(of), None), "BAD_ARGUMENT"
    yield "later options", lambda: call("halfulp_pow", a, a, out, flags=8), "BAD_ARGUMENT"
    yield "threads", lambda: call("halfulp_pow", a, a, out, threads=-1), "BAD_ARGUMENT"
    yield "another type", lambda: call("halfulp_pow", a, ints, ints), "BAD_TYPE"
    yield "slope's type", lambda: call("halfulp_prelu", a, ints, out), "BAD_TYPE"
    yield "out too small", lambda: call("halfulp_pow", wide, a, out), "BAD_SHAPE"
    yield "out too large", lambda: call("halfulp_pow", a[:1], a[:1], out), "BAD_SHAPE"
    yield "slope too large", lambda: call("halfulp_prelu", a, wide, wide.copy()), "BAD_SHAPE"
    yield "overlap", lambda: call("halfulp_pow", a[:3], a[:3], a[1:]), "OVERLAP"
    yield "one place", lambda: call("halfulp_pow", a, a, np.broadcast_to(out[:1], 4)), "OVERLAP"


@pytest.mark.parametrize("function", ["halfulp_pow", "halfulp_prelu"])
@pytest.mark.parametrize(
    "shape", [(2**32, 2**32), (2**62, 4), (2**40, 1, 2**40), (2**62,), (2**60, 0, 2**60)], ids=str
)
def test_more_elements_than_memory_holds(shape, function):
    memory = np.zeros(4, np.float32).ctypes.data
    extents, nowhere = ((ctypes.c_ssize_t * len(shape))(*of) for of in (shape, [0] * len(shape)))
    x, y, out = (Array(memory + 4 * n, STATUS["FLOAT32"], len(shape), extents, nowhere, 0) for n in range(3))
    given = Options(size=ctypes.sizeof(Options), flags=STATUS["NO_OVERLAP"])
    status = getattr(LIBRARY, function)(*map(ctypes.byref, (x, y, out, given)))
    assert status == STATUS["OK" if 0 in shape else "BAD_SHAPE"]


@pytest.mark.parametrize(("what", "called", "status"), [*refused()], ids=[what for what, _, _ in refused()])
def test_it_refuses(what, called, status):
    assert called() == STATUS[status], what


def test_options_of_an_earlier_and_of_a_later_version():
    x, out = np.float32([-8.0, 2.0]), np.zeros(2, np.float32)
    arrays = [ctypes.byref(of) for of in map(array, (x, np.float32([1 / 3]), out))]
    earlier = Options(size=Options.threads.offset, flags=STATUS["DOMAIN_ERROR"], threads=-7)
    assert LIBRARY.halfulp_pow(*arrays, ctypes.byref(earlier)) == 0
    later = ctypes.create_string_buffer(ctypes.sizeof(Options) + 8)
    Options.from_buffer(later).size = len(later)
    assert LIBRARY.halfulp_pow(*arrays, later) == 0
    later[ctypes.sizeof(Options)] = 1
    assert LIBRARY.halfulp_pow(*arrays, later) == STATUS["BAD_ARGUMENT"]


def test_threads_of_the_caller_and_an_end_by_the_caller():
    x, out = np.full(300_000, 1.5), np.zeros(300_000)
    indices: list[int] = []

    @PARALLEL_FOR
    def backwards(context: int, work: object, data: int, count: int) -> int:
        for index in reversed(range(count)):
            indices.append(index)
            work(data, index)
        return int(context or 0)

    assert call("halfulp_pow", x, x, out, parallel_for=backwards) == 0
    assert indices == list(reversed(range(len(indices))))
    assert len(indices) > 1
    assert (out == hu.pow(x, x)).all()
    assert call("halfulp_pow", x, x, out, parallel_for=backwards, parallel_context=1) == STATUS["STOPPED"]
    hard = np.full(3_000_000, 0x400A022D3761AF1F).view(np.float64)
    never = KEEP_GOING(lambda _: 0)
    for threads in (1, 2):
        status = call(
            "halfulp_pow", hard, np.float64([-1 / 3]), hard.copy(), keep_going=never, threads=threads
        )
        assert status == STATUS["STOPPED"]


def test_a_memo_serves_calls_with_any_exponents_and_types():
    memo = LIBRARY.halfulp_memo_new()
    for kind in (np.float16, TYPES["float8_e5m2"].dtype, TYPES["bfloat16"].dtype):
        for exponent, flags in ((2.7, 0), (2.7, STATUS["DOMAIN_ERROR"]), (-1.3, 0)):
            x = np.arange(1 << 18).astype(f"u{np.dtype(kind).itemsize}")
            x, y = x.view(kind), np.float64([exponent])
            plain, kept = np.zeros_like(x), np.zeros_like(x)
            assert call("halfulp_pow", x, y, plain, flags=flags) == 0
            for _ in range(2):
                assert call("halfulp_pow", x, y, kept, flags=flags, memo=memo) == 0
                assert plain.tobytes() == kept.tobytes()
    LIBRARY.halfulp_memo_free(memo)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_does_not_wait_for_a_memo():
    """As if a thread of the parent used it at that moment, which is in the parent alone."""
    memo = LIBRARY.halfulp_memo_new()
    x, out = np.arange(2**12).astype(np.uint8).view(TYPES["float8_e4m3"].dtype), np.zeros(2**12, np.uint8)
    result = out.view(x.dtype)
    assert ctypes.CDLL(None).pthread_mutex_lock(ctypes.c_void_p(memo)) == 0  # its first member
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        status = call("halfulp_pow", x, np.uint8([3]), result, memo=memo)
        os._exit(status or result.tobytes() != hu.pow(x, np.uint8(3)).tobytes())
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(("name", "kind"), [("halfulp_powf", np.float32), ("halfulp_powd", np.float64)])
def test_one_element(name, kind):
    hard = hard_pairs(kind.__name__, kind.__name__)
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -3, 1e-30], kind)
    x, y = joined(hard, outer(special, special))
    each = np.array([getattr(LIBRARY, name)(float(a), float(b)) for a, b in zip(x, y, strict=True)], kind)
    assert same_bits(each, hu.pow(x, y)).all()


POWERS = ("powers.c", ["gcc", "-std=c11"], "0.00316227786\n5.65685415\n15.5884571\n316.227753\n")
PRELU = ("prelu.cpp", ["g++", "-std=c++17"], "The call is done. y[999][299] = -149.5, 2^0.5 = 1.41421354\n")


@pytest.mark.parametrize(
    ("source", "compiler", "printed", "under"),
    [(*PRELU, ""), (*POWERS, "valgrind"), pytest.param(*PRELU, "valgrind", marks=pytest.mark.exhaustive)],
)
def test_programs(source, compiler, printed, under, tmp_path):
    flags = run(sys.executable, "-m", "halfulp", "--cflags", "--libs").split()
    options = [*compiler[1:], "-Wall", "-Wextra", "-pedantic", "-Werror"]
    run(tool(compiler[0]), *options, EXAMPLES / source, *flags, "-o", tmp_path / "program")
    checks = [tool(under), "-q", "--leak-check=full", "--error-exitcode=9"] if under else []
    # valgrind knows no AVX-512
    assert run(*checks, tmp_path / "program", **({"HALFULP_ISA": "scalar"} if under else {})) == printed


def test_by_ctypes(capsys):
    runpy.run_path(str(EXAMPLES / "by_ctypes.py"))
    assert "(0.0031604766845703125, 5.65625, 15.5859375)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "target", "module", "printed"),
    [
        (EXAMPLES / "powers.c", "halfulp::halfulp", "halfulp", "0.00316227786\n"),
        (LIBM / "pairs.c", "halfulp::m m", "halfulp-m", "0.0031622776601683794\n"),
    ],
)
def test_packages_for_cmake_and_pkg_config(source, target, module, printed, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "halfulp", "--cmakedir", "--pkgconfigdir"], capture_output=True, text=True
    )
    if done.returncode:
        assert done.stderr.startswith("UnsupportedError: this installation of halfulp has no share/")
        pytest.skip("the library lies in no installation")
    cmake, pkgconfig = done.stdout.split()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(p C)\nfind_package(halfulp 0.1 REQUIRED)\n"
        f"add_executable(p {source})\ntarget_link_libraries(p {target})\n"
    )
    run(tool("cmake"), "-S", tmp_path, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={Path(cmake).parents[2]}")
    run(tool("cmake"), "--build", tmp_path)
    programs = ["p"]
    if shutil.which("pkg-config"):
        flags = run("pkg-config", "--cflags", "--libs", module, PKG_CONFIG_PATH=pkgconfig).split()
        run(tool("gcc"), "-std=c11", source, *flags, "-o", tmp_path / "q")
        programs.append("q")
    environment = os.environ | {"LD_LIBRARY_PATH": str(Path(hu.get_library()).parent)}
    for name in programs:
        command = [tmp_path / name]
        shown = subprocess.run(command, input="10 -2.5\n", capture_output=True, text=True, env=environment)
        assert shown.stdout.startswith(printed)
