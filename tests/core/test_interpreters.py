"""Sub-interpreters and free-threaded Python: it works, or refuses, and the main interpreter goes on."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable

import pytest

CREATE = """
import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    kinds = ["legacy", "isolated"]
    create = interpreters.create
else:
    import _xxsubinterpreters as interpreters
    kinds = [False, True]
    create = lambda isolated: interpreters.create(isolated=isolated)

def run(kind):
    interpreter = create(kind)
    interpreters.run_string(interpreter, INSIDE)
    sys.stdout.flush()

INSIDE = '''
import warnings
warnings.simplefilter("ignore")
try:
    import numpy as np
    import halfulp as hu
    long = np.full(3_000_000, 1.5)
    assert (hu.pow(long, 2.0) == 2.25).all()
    assert (hu.pow(long, long[:1], out=long) == 1.5**1.5).all()
    assert hu.prelu(np.float32(-2), 0.5) == -1
    try:
        hu.pow(long, long[:3])
    except hu.HalfulpError:
        print("works", flush=True)
except ImportError as error:
    print("refuses", flush=True)
'''
"""

BESIDE = (
    CREATE
    + """
import numpy as np
import halfulp as hu
for kind in kinds:
    run(kind)
assert (hu.pow(np.full(3_000_000, 1.5), 2.0) == 2.25).all()
print("goes on")
"""
)

ALONE = CREATE + "run(kinds[0])"


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="CPython's module")
@pytest.mark.parametrize("program", [BESIDE, ALONE], ids=["beside the main one", "alone"])
def test_works_or_refuses(program: str, python: Callable[..., str]) -> None:
    said = python(program).split()
    if program is BESIDE:
        assert said.pop(0) in ("works", "refuses")
        assert said.pop() == "on"
        assert said.pop() == "goes"
    assert said in (["works"], ["refuses"])  # NumPy itself may refuse


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="needs a free-threaded Python")
def test_a_free_threaded_python_keeps_its_lock_off(python: Callable[..., str]) -> None:
    assert python("import halfulp, sys; print(sys._is_gil_enabled())") == "False\n"
