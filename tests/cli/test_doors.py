"""``halfulp doors``: one digest by every way that is there, and by MPFR, C and JavaScript; how a fault is shown."""

import hashlib
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from tests.house.builds import ROOT, run, tool
from typer.testing import CliRunner

import halfulp as hu
from halfulp import doors
from halfulp.cli import app
from halfulp.errors import UnsupportedError
from halfulp.installed import get_libm

COUNT = 2000
RANGES = {"float64": (53, -1073, 1024), "float32": (24, -148, 128)}


def digest(powers: np.ndarray | bytes) -> str:
    return hashlib.sha256(powers).hexdigest()[:16]


def by_mpfr(dtype: str, count: int) -> np.ndarray:
    bits, least, most = RANGES[dtype]
    x, y = doors.operands(dtype, count)
    with gmpy2.context(precision=bits, emin=least, emax=most, subnormalize=True):
        return np.array(
            [float(gmpy2.mpfr(a) ** gmpy2.mpfr(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)],
            dtype,
        )


@pytest.mark.parametrize("dtype", RANGES)
def test_powers_are_the_exact_ones_and_half_of_them_hard(dtype):
    x, y = doors.operands(dtype, doors.COUNT)
    powers = hu.pow(x, y)
    assert digest(powers) == doors.DIGESTS[dtype]
    assert np.array_equal(powers[:COUNT], by_mpfr(dtype, COUNT))
    # Every engine gives the same bits: no result is a NaN, infinite or subnormal.
    assert np.all(np.isfinite(powers) & (abs(powers) >= np.finfo(dtype).tiny))
    # Distances from the midpoint of two numbers, in units in the last place.
    wide = [gmpy2.mpfr(a, 300) for a in x[:400].tolist()], [gmpy2.mpfr(b, 300) for b in y[:400].tolist()]
    with gmpy2.context(precision=300):
        exact = [a**b for a, b in zip(*wide, strict=True)]
        pairs = zip(exact, map(float, np.spacing(powers[:400])), map(float, powers[:400]), strict=True)
        distances = [abs(abs(value - power) / abs(unit) - 0.5) for value, unit, power in pairs]
    assert all(distance == 0 for distance in distances[3::4])
    assert all(0 < distance < 0.05 for distance in distances[2::4])


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", RANGES)
def test_all_of_them_by_mpfr(dtype):
    assert digest(by_mpfr(dtype, doors.COUNT)) == doors.DIGESTS[dtype]


# Inductor compiles for seconds; tests/integrations/test_torch_compile.py has its bits.
LONG = {"torch.compile in exact()"}
assert {*doors.DOORS} > LONG


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.exhaustive] if n in LONG else []) for n in doors.DOORS]
)
def test_every_door_has_the_same_digest(name, monkeypatch):
    # Inductor would compile six programs to know the processor's vectors, and torch's headers beforehand.
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "0")
    monkeypatch.setenv("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")
    results = doors.measure(name, COUNT)
    if "absent" in results:
        pytest.skip(results["absent"])
    expected = {dtype: digest(hu.pow(*doors.operands(dtype, COUNT))) for dtype in RANGES}
    types = doors.DOORS[name].get("types", RANGES)
    assert {dtype: result[0] for dtype, result in results.items()} == {t: expected[t] for t in types}


@pytest.mark.parametrize(("bits", "dtype"), [("64", "float64"), ("32", "float32")])
def test_a_program_in_c(bits, dtype, tmp_path):
    """Unmodified, by halfulp exec; and linked to the library."""
    try:
        library = Path(get_libm())
    except UnsupportedError as error:
        pytest.skip(str(error))
    source, program = ROOT / "examples" / "c" / "digest.c", tmp_path / "digest"
    run(tool("cc"), "-O2", "-Wall", "-Wextra", "-Werror", source, "-o", program, "-lm")
    line = f"{tool('halfulp')} exec {program} {bits} | sha256sum | cut -c -16"
    assert run("sh", "-c", line).strip() == doors.DIGESTS[dtype]
    run(tool("cc"), source, "-o", program, library.with_suffix(".a"), "-lm")
    assert run("sh", "-c", f"{program} {bits} | sha256sum | cut -c -16").strip() == doors.DIGESTS[dtype]


def test_javascript_has_the_same_operands(tmp_path):
    program = f"""
    import {{ operands }} from "{ROOT}/bindings/wasm/digest.mjs";
    import {{ writeFileSync }} from "node:fs";
    for (const bits of [64, 32])
      operands(bits, 9999).forEach((array, k) => writeFileSync("{tmp_path}/float" + bits + k, array));
    """
    run(tool("node"), "--input-type=module", "-e", program)
    for dtype in RANGES:
        for k, array in enumerate(doors.operands(dtype, 9999)):
            assert (tmp_path / f"{dtype}{k}").read_bytes() == array.tobytes()


def invoke(*arguments: str) -> tuple[int, list[str]]:
    done = CliRunner().invoke(app, ["doors", *arguments])
    return done.exit_code, [line.rstrip() for line in done.output.splitlines() if line.strip()]


def test_the_table(monkeypatch):
    """A door that differs or fails is said, with exit status 1; one that is absent is said."""
    wrong = {"types": ["float32"], "powers": "np.nextafter(hu.pow(x, y), x)"}
    lacks = {"before": "import no_such_library", "powers": "x"}
    crashes = {"before": "import os; os.abort()", "powers": "x"}
    program = f"from halfulp import doors; doors.DOORS |= {{'wrong': {wrong}, 'lacks': {lacks}, 'crashes': {crashes}}}"
    measure = doors.subprocess.run

    def with_ours(command: list[str], **options: object) -> object:
        text = f"{program}; import json, sys; print(json.dumps(doors._results(doors.DOORS[{command[3]!r}], {COUNT})))"
        return measure([command[0], "-c", text], **options)

    monkeypatch.setattr(doors.subprocess, "run", with_ours)
    for name, door in (("wrong", wrong), ("lacks", lacks), ("crashes", crashes)):
        monkeypatch.setitem(doors.DOORS, name, door)
    count = f"--count={COUNT}"
    status, (_, _, row) = invoke("hu.pow of arrays", count)
    assert (status, row.split()[-3]) == (0, "right")
    status, (_, _, row) = invoke("lacks", count)
    assert status == 0
    assert "not installed: pip install no_such_library" in row
    status, (_, _, row) = invoke("wrong", count)
    assert status == 1
    assert "differs" in row
    status, (_, _, row) = invoke("crashes", count)
    assert status == 1
    assert "exit status -6" in row
