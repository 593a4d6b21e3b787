"""Sub-interpreters are refused, and the main interpreter goes on; free-threaded Python keeps its lock off."""

import sys
import sysconfig

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
    import halfulp
except ImportError:
    print("refused", flush=True)
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
def test_a_sub_interpreter_is_refused(program, python):
    expected = ["refused", "refused", "goes on"] if program is BESIDE else ["refused"]
    assert python(program).splitlines() == expected


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="needs a free-threaded Python")
def test_a_free_threaded_python_keeps_its_lock_off(python):
    assert python("import halfulp, sys; print(sys._is_gil_enabled())") == "False\n"
