"""The same powers by every way into halfulp, each in a process of its own: ``python -m halfulp.doors NAME COUNT``."""

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import halfulp.operators as hu
from halfulp.errors import UnsupportedError
from halfulp.installed import get_libm

DOORS: dict[str, Mapping[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
COUNT = 500_000  # of each type
DIGESTS = {"float64": "faa22c930d6bf99b", "float32": "1b20af4730e44439"}
# For each type the distance of numbers above 1, a mask for exponents, and two ranges, as a minimum and a mask: of odd
# numbers whose square is the midpoint of two numbers, and whose cube is.
_HARD = {
    "float64": (2.0**-52, 127, 0x6000001, 0xFFFFFF, 0x38001, 0x3FFF),
    "float32": (2.0**-23, 3, 4097, 511, 257, 31),
}
_WASM = Path(__file__).parents[2] / "build" / "wasm"


def operands(dtype: str, count: int) -> tuple[Any, Any]:
    """Return bases and exponents. Of the powers a quarter is near the midpoint of two numbers, and a quarter is one.

    examples/c/digest.c and bindings/wasm/digest.mjs have the same ones.
    """
    i = np.arange(count, dtype=np.uint32)
    n = 4 * i + np.arange(4, dtype=np.uint32)[:, None]
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        n = (n ^ n >> np.uint32(shift)) * np.uint32(factor)
    a, b, c, d = n ^ n >> np.uint32(16)
    step, most, square, squares, cube, cubes = _HARD[dtype]
    ordinary = (a + 1.0 + b / 2.0**32) / 2.0**26, (c + d / 2.0**32) / 2.0**28 - 8
    near = 1 + (2 * (a & 127) + 1) * step, (b & most) + 0.5
    odd = np.where(c & 1, cube + 2 * (a & cubes), square + 2 * (a & squares))
    on = np.where(c >> 31, -1.0, 1.0) * odd, 2.0 + (c & 1)
    x, y = np.select([i % 4 < 2, i % 4 == 2], [ordinary, near], on)
    return x.astype(dtype), y.astype(dtype)


def measure(name: str, count: int) -> dict[str, Any]:
    """Return for each type the digest and nanoseconds a power, or a line about a door that is absent or failed."""
    command, environment = [sys.executable, "-m", "halfulp.doors", name, str(count)], dict(os.environ)
    if "powers" not in DOORS[name]:
        if not (_WASM / "halfulp.wasm").exists() or (node := shutil.which("node")) is None:
            return {"absent": "not installed: Node, or halfulp.wasm (make wasm in the source tree)"}
        command = [node, str(_WASM / "digest.mjs"), str(count)]
    if name.startswith("exec"):
        try:
            environment["LD_PRELOAD"] = get_libm()
        except UnsupportedError as error:
            return {"absent": str(error)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    return {"failed": [f"exit status {done.returncode}", *done.stderr.splitlines()][-1]}


def _results(door: Mapping[str, Any], count: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for dtype in door.get("types", DIGESTS):
        x, y = operands(dtype, count)
        names = {"x": x, "y": y, "np": np, "hu": hu, "ctypes": ctypes, "exact": nullcontext}
        names |= {"subprocess": subprocess, "tempfile": tempfile}
        try:
            exec(door.get("before", ""), names)
        except ModuleNotFoundError as error:
            return {"absent": f"not installed: pip install {error.name}"}
        except FileNotFoundError as error:
            return {"absent": f"not installed: {error.filename}"}
        with names["exact"]():
            eval(door["powers"], names)
            start = perf_counter()
            powers = np.asarray(eval(door["powers"], names), x.dtype)
            time = perf_counter() - start
        little = powers.astype(powers.dtype.newbyteorder("<")).tobytes()
        results[dtype] = hashlib.sha256(little).hexdigest()[:16], 1e9 * time / count
    return results


if __name__ == "__main__":
    print(json.dumps(_results(DOORS[sys.argv[1]], int(sys.argv[2]))))
