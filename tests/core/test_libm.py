"""libhalfulp_m: pow and powf of unmodified programs, in all rounding modes, with errno and exceptions; halfulp exec."""

import os
import subprocess
import sys
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from tests.house.builds import run, tool

import halfulp as hu
from halfulp.conformance.cases.values import Pairs, hard_pairs, joined, outer
from halfulp.errors import UnsupportedError
from halfulp.installed import get_libm

try:
    LIBRARY = get_libm()
except UnsupportedError as error:
    pytest.skip(str(error), allow_module_level=True)

EXEC = (sys.executable, "-m", "halfulp", "exec")
PRELOADED = ("env", f"LD_PRELOAD={LIBRARY}")  # as EXEC starts a program, without Python
PROGRAMS = Path(__file__).parent / "libm"
NAMES = {"pow", "powf", "powf64", "powf32x", "powf32", "__pow_finite", "__powf_finite"}
MODES = {
    "nearest": gmpy2.RoundToNearest,
    "downward": gmpy2.RoundDown,
    "upward": gmpy2.RoundUp,
    "to zero": gmpy2.RoundToZero,
}


def misrounded(dtype: type[np.floating], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return operands whose powers the C library misrounds, if it misrounds so many; and others."""
    rng = np.random.default_rng(7)
    x, y = np.exp(rng.uniform(-3, 3, 200_000)).astype(dtype), rng.uniform(-9, 9, 200_000).astype(dtype)
    wrong = np.array([float(a) ** float(b) for a, b in zip(x.astype(float), y.astype(float), strict=True)])
    order = np.argsort(wrong.astype(dtype) == hu.pow(x, y), kind="stable")[:count]
    return x[order], y[order]


X, Y = misrounded(np.float64, 100)
LINES = "".join(f"{x!r} {y!r}\n" for x, y in zip(X.tolist(), Y.tolist(), strict=True))
HEXADECIMAL = "".join(f"{x.hex()} {y.hex()}\n" for x, y in zip(X.tolist(), Y.tolist(), strict=True))
AWK = '{printf "%.17g\\n", $1 ^ $2}'
LUA = 'for x,y in io.read("a"):gmatch("(%S+) (%S+)") do print(string.format("%.17g",x^y)) end'
NUMPY = "x,y=np.array([l.split() for l in sys.stdin],float).T\nprint(*np.power(x,y).tolist())"
SQL = """import sqlite3, sys
query = sqlite3.connect(":memory:").execute
for line in sys.stdin: print(repr(query("select pow(?, ?)", [*map(float, line.split())]).fetchone()[0]))"""
OTHERS = {
    "Python": [
        sys.executable,
        "-c",
        "import sys\nfor l in sys.stdin:\n x,y=map(float,l.split());print(repr(x**y))",
    ],
    "NumPy": [sys.executable, "-c", f"import sys,numpy as np\n{NUMPY}"],
    "mawk": ["mawk", AWK],
    "gawk": ["gawk", AWK],
    "perl": ["perl", "-ne", '@a=split; printf "%.17g\\n", $a[0] ** $a[1]'],
    "ruby": ["ruby", "-ne", "a,b=$_.split.map(&:to_f); puts a**b"],
    "lua": ["lua5.4", "-e", LUA],
    "php": ["php", "-r", 'while($l=fgets(STDIN)){[$x,$y]=explode(" ",$l);printf("%.17g\\n",$x**(float)$y);}'],
    "jq": ["jq", "-R", 'split(" ")|map(tonumber)|pow(.[0];.[1])'],
    "SQL": [sys.executable, "-c", SQL],
    "Tcl": ["tclsh", str(PROGRAMS / "pairs.tcl")],
    "R": ["Rscript", "-e", 'd<-read.table(file("stdin"));writeLines(sprintf("%.17g",d[,1]^d[,2]))'],
}


@pytest.mark.parametrize("name", OTHERS)
def test_unmodified_programs(name):
    program, *arguments = OTHERS[name]
    numbers = HEXADECIMAL if name == "R" else LINES  # R rounds a decimal number twice
    done = subprocess.run(
        [*PRELOADED, tool(program), *arguments], input=numbers, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert list(map(float, done.stdout.split())) == hu.pow(X, Y).tolist()


def test_rust(tmp_path):
    program = tmp_path / "pairs"
    run(tool("rustc"), "-O", PROGRAMS / "pairs.rs", "-o", program)
    done = subprocess.run([*PRELOADED, program], input=LINES, capture_output=True, text=True, check=True)
    assert list(map(float, done.stdout.split())) == hu.pow(X, Y).tolist()


@pytest.mark.parametrize(
    ("compiler", "options"),
    [("gcc", ["-O2"]), ("gcc", ["-Ofast"]), ("g++", ["-O2", "-xc++"]), ("clang", ["-O2"])],
)
def test_compiled_programs(compiler, options, tmp_path):
    """Preloaded; linked before the C library's; and by the static library."""
    source, folder = PROGRAMS / "pairs.c", Path(LIBRARY).parent
    expected = hu.pow(X, Y).tolist()
    linked = {
        "preloaded": ["-lm"],
        "shared": [f"-L{folder}", "-lhalfulp_m", "-lm", f"-Wl,-rpath,{folder}"],
        "static": [str(folder / "libhalfulp_m.a"), "-lm"],
        "all static": ["-static", str(folder / "libhalfulp_m.a"), "-lm"],
    }
    # How a program is linked does not depend on its compiler.
    for name in linked if (compiler, options) == ("gcc", ["-O2"]) else ("preloaded", "static"):
        libraries = linked[name]
        program = tmp_path / name.replace(" ", "_")
        run(tool(compiler), *options, source, "-xnone", *libraries, "-o", program)
        command = [*PRELOADED, program] if name == "preloaded" else [program]
        printed = subprocess.run(command, input=LINES, capture_output=True, text=True, check=True).stdout
        assert list(map(float, printed.split())) == expected, name


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_modes_and_vectors(dtype, tmp_path):
    """Each mode has MPFR's powers, and so have the vectors of libmvec, SLEEF and SVML that the processor supports."""
    rng, count = np.random.default_rng(1), 1600
    x, y = (array[:600] for array in hard_pairs(dtype.__name__, dtype.__name__))
    most = 1024 if dtype is np.float64 else 128
    bases, exponents = np.exp(rng.uniform(-20, 20, count)), rng.uniform(-40, 40, count)
    exponents[:300] = rng.integers(-30, 30, 300)
    bases[:300] = rng.integers(-300, 300, 300) / 16
    edges = np.where(rng.random(400) < 0.5, most, -most * 1.03) * rng.uniform(0.99, 1.01, 400)
    exponents[-400:] = edges / np.log2(bases[-400:])
    with np.errstate(over="ignore"):
        x, y = (np.concatenate(pair).astype(dtype) for pair in ((x, bases), (y, exponents)))
    info = np.finfo(dtype)
    least = [info.smallest_subnormal, info.tiny, info.tiny * 2**30]
    magnitudes = np.array([*least, 0, 0.5, 1, 2, 2.5, 3, info.max, np.inf], dtype)
    special = np.concatenate((magnitudes, -magnitudes, [np.nan]), dtype=dtype)
    x, y = joined(Pairs(x, y), outer(special, special))
    run(
        *(tool("gcc"), "-O1", "-fno-builtin", "-frounding-math", PROGRAMS / "modes.c", "-lm", "-o"),
        tmp_path / "modes",
    )
    given = np.int64([dtype is np.float64, len(x)]).tobytes() + x.tobytes() + y.tobytes()
    done = subprocess.run([*PRELOADED, tmp_path / "modes"], input=given, capture_output=True, check=True)
    results = np.frombuffer(done.stdout, dtype).reshape(len(MODES), len(x))
    bits, least = (53, -1073) if dtype is np.float64 else (24, -148)
    for got, mode in zip(results, MODES, strict=True):
        with gmpy2.context(precision=bits, round=MODES[mode], emin=least, emax=most, subnormalize=True):
            right = [float(gmpy2.mpfr(float(a)) ** gmpy2.mpfr(float(b))) for a, b in zip(x, y, strict=True)]
        assert np.array_equal(got, np.array(right, dtype), equal_nan=True), mode


def test_errno_and_exceptions(tmp_path):
    """As the C library's, for special operands and at the edges of the range, but for what Annex F leaves open."""
    run(
        *(tool("gcc"), "-O1", "-fno-builtin", "-frounding-math", PROGRAMS / "exceptions.c", "-lm", "-o"),
        tmp_path / "p",
    )
    lines = zip(run(tmp_path / "p").splitlines(), run(*PRELOADED, tmp_path / "p").splitlines(), strict=True)
    compared = 0
    for of_libm, ours in lines:
        operands, _, expected = of_libm.partition(" = ")
        (bits, flags, number), (our_bits, our_flags, our_number) = (
            expected.split(),
            ours.split(" = ")[1].split(),
        )
        assert ours.startswith(operands)
        assert flags[:3] == our_flags[:3], (of_libm, ours)  # invalid, division by zero, overflow
        if bits == our_bits:
            # What is exact raises neither underflow nor inexact; ERANGE may be set for subnormal powers.
            assert our_flags[3:] in (flags[3:], "--"), (of_libm, ours)
            assert number == our_number or "U" in flags + our_flags, (of_libm, ours)
        else:
            infinity, sign = (0x7FF << 52, 1 << 63) if len(bits) == 16 else (0xFF << 23, 1 << 31)
            both_nan = all(int(found, 16) & (sign - 1) > infinity for found in (bits, our_bits))
            assert both_nan or abs(int(bits, 16) - int(our_bits, 16)) <= 1, (of_libm, ours)
        compared += 1
    assert compared == 2 * 30 * 30


def test_traps(tmp_path):
    """Ordinary powers raise nothing that traps, and a pole does."""
    run(tool("gcc"), "-O1", "-fno-builtin", PROGRAMS / "traps.c", "-lm", "-o", tmp_path / "traps")
    assert run(*PRELOADED, tmp_path / "traps") == "2.98845 1e-90 1.21577e+19 trap trap trap trap \n"


def test_symbols():
    """Only the C library is needed, and libhalfulp itself has no such name."""
    listed = run(tool("objdump"), "-T", "-p", LIBRARY)
    defined = {line.split()[-1] for line in listed.splitlines() if " g " in line and ".text" in line}
    assert {name for name in defined if not name.startswith(("_ZGV", "Sleef_", "__svml_"))} == NAMES
    assert [line.split()[1] for line in listed.splitlines() if "NEEDED" in line] == ["libc.so.6"]
    assert os.path.getsize(LIBRARY) < 400_000
    exported = run(tool("nm"), "-D", "--defined-only", hu.get_library())
    assert not defined & {line.split()[-1].split("@")[0] for line in exported.splitlines()}


def test_the_verb(tmp_path):
    assert run(*EXEC, "--paths").strip() == LIBRARY
    for arguments, status, text in (
        ([], 2, "error: name the program to run, such as: halfulp exec python model.py"),
        ([""], 2, "error: name the program to run, such as: halfulp exec python model.py"),
        (["no-such-program"], 2, "error: no-such-program: No such file or directory"),
        ([sys.executable, "-c", "exit(7)", "--help"], 7, ""),
    ):
        done = subprocess.run([*EXEC, *arguments], capture_output=True, text=True)
        assert (done.returncode, done.stderr.strip()) == (status, text)
    show = "import os; print(os.environ['LD_PRELOAD'])"
    assert run(*EXEC, sys.executable, "-c", show, LD_PRELOAD="").strip() == LIBRARY
