"""The targets by name, and each that is installed against a case with a known answer."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from halfulp.conformance.case import Case
from halfulp.conformance.judge import Outcome
from halfulp.conformance.process import Process
from halfulp.conformance.targets import BUILT_IN, TargetSpec, find, find_command
from halfulp.errors import HalfulpError

ProcessOf = Callable[[str], Process]
LONG = 600  # seconds that no answer takes, however busy the machine is
FAULTY = Path(__file__).parents[1] / "faulty.py"
X, Y = np.array([[2, 3, 4]], np.float32), np.array([2, 3, 0.5], np.float32)
POW = Case("onnx.Pow-15/float32,float32/values/0", "onnx.Pow-15", "values", (X, Y))
PRELU = Case("onnx.PRelu-16/float32,float32/values/0", "onnx.PRelu-16", "values", (-X, Y))
NARROW = np.array([-2, 3], ml_dtypes.bfloat16)
SMALL = Case("onnx.PRelu-16/bfloat16,bfloat16/values/0", "onnx.PRelu-16", "values", (NARROW, NARROW))


def is_right(output: object, expected: object, dtype: object = np.float32) -> bool:
    """Tell whether an output has the values and the type that it must have."""
    near = isinstance(output, np.ndarray) and np.allclose(output.astype(float), expected, 1e-5)
    return near and (output.dtype, output.shape) == (dtype, np.shape(expected))


def opened(name: str) -> TargetSpec:
    """Return a target whose package is installed, or skip."""
    pytest.importorskip(BUILT_IN[name].package)
    return find(name)


@pytest.fixture(scope="module")
def process_of() -> Iterator[ProcessOf]:
    """A target's process by its name, started once: torch and others take seconds to import."""
    with ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context(Process(opened(name), time_limit=LONG)))


# Inductor takes arrays and constants as torch does, but compiles a program in C++ for each of them.
NAMES = [
    pytest.param(name, marks=[pytest.mark.exhaustive] if name == "inductor" else [])
    for name in BUILT_IN
    if name != "openvino-native"
]


@pytest.mark.parametrize("name", NAMES)
def test_a_target_computes(name, process_of):
    process = process_of(name)
    power = process.run(POW)
    assert process.versions or name == "halfulp"
    assert is_right(power, [[4, 27, 2]])
    if BUILT_IN[name].takes(PRELU):
        assert process.run(PRELU).tolist() == [[-4, -9, -2]]


@pytest.mark.parametrize("name", NAMES)
def test_constants(name, process_of):
    for y in (Y, np.float32(2).reshape(())):
        for constants in ({1}, {0, 1}):
            case = Case("onnx.Pow-15/a/values/0", "onnx.Pow-15", "values", (X, y), {}, frozenset(constants))
            power = process_of(name).run(case)
            assert is_right(power, X**y)


@pytest.mark.parametrize("name", ["onnxruntime:cpu", "ort:CPUExecutionProvider", "onnxruntime:halfulp"])
def test_a_provider_of_onnxruntime(name):
    pytest.importorskip("onnxruntime", "1.25")
    with Process(find(name), time_limit=LONG) as process:
        assert process.run(POW).tolist() == [[4, 27, 2]]
        assert process.spec.name == f"onnxruntime:{name.partition(':')[2]}"


@pytest.mark.parametrize(
    ("provider", "says"),
    [("cuda", "not offered here: this ONNX Runtime has Azure, CPU, not cuda"), ("azure", "not offered")],
)
def test_a_provider_that_is_not_here_or_lacks_the_kernel(provider, says):
    ort = pytest.importorskip("onnxruntime")
    if ort.get_available_providers() != ["AzureExecutionProvider", "CPUExecutionProvider"]:
        pytest.skip("another build of ONNX Runtime")
    with Process(find(f"onnxruntime:{provider}"), time_limit=LONG) as process:
        if provider == "cuda":
            with pytest.raises(HalfulpError, match=says):
                process.run(POW)
        else:
            assert process.run(POW) == Outcome("not offered", "AzureExecutionProvider has no kernel for it")


def test_openvino_without_onnx():
    with Process(opened("openvino-native"), time_limit=LONG) as process:
        for way, y in (("numpy", Y), ("none", Y.reshape(1, 3))):
            case = Case("a", "openvino.Power-1", "values", (X, y), {"auto_broadcast": way}, frozenset({1}))
            power = process.run(case)
            assert is_right(power, [[4, 27, 2]])
        short = (X, np.ones(2, np.float32))
        refused = process.run(Case("a", "openvino.Power-1", "invalid", short, {"auto_broadcast": "none"}))
        assert isinstance(refused, Outcome)
        assert refused.kind == "refused"
        assert "Exception from" not in refused.message
        assert process.run(Case("a", "openvino.PReLU-1", "values", (-X, Y))).tolist() == [[-4, -9, -2]]


@pytest.mark.parametrize("name", ["openvino", "torch", "jax", "numpy", "onnx-reference", "halfulp"])
def test_a_type_that_numpy_lacks_crosses_by_its_bits(name, process_of):
    output = process_of(name).run(SMALL)
    assert is_right(output, [4, 3], ml_dtypes.bfloat16)


def test_what_is_for_whom():
    old = Case("onnx.Pow-7/float32,float32/values/0", "onnx.Pow-7", "values", (X, Y))
    invalid = Case(
        "onnx.Pow-15/float32,float32/invalid/C2", "onnx.Pow-15", "invalid", (X, Y), clause="onnx.Pow-15.C2"
    )
    native = Case("openvino.PReLU-1/float32,float32/values/0", "openvino.PReLU-1", "values", (X, Y))
    of_models, of_arrays = [True, True, True, False], [True, False, False, False]
    takes = dict.fromkeys(("onnxruntime", "openvino", "onnx-reference", "onnx-converter"), of_models)
    takes |= dict.fromkeys(("torch", "numpy", "jax"), of_arrays)
    takes |= {"openvino-native": [False, False, False, True], "halfulp": [True] * 4}
    for name, expected in takes.items():
        assert [BUILT_IN[name].takes(case) for case in (POW, old, invalid, native)] == expected
    assert not BUILT_IN["openvino-native"].takes_types("openvino.Power-1", ("float8_e3m4",))
    sonnx = "sonnx.Pow-15", ("float32",) * 2
    assert {name for name, spec in BUILT_IN.items() if not spec.takes_types(*sonnx)} == {"openvino-native"}


@pytest.mark.parametrize("target", ["mine", "mine:f"])
def test_a_program_and_a_library_are_told_their_options(target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = target.partition(":")[0]
    Path(file).touch()
    with pytest.raises(HalfulpError) as caught:
        find(f"./{target}")
    options = f"a program is --command ./{file}, and a function of a C library --library FILE:FUNCTION"
    assert str(caught.value) == f"no target ./{target}; {options}"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("sh -c true {model} {inputs} {outputs}", "sh"),
        (f"{sys.executable} tools/run-it.py {{model}} {{inputs}} {{outputs}}", "run-it"),
        ("mine-2.0=sh -c true {model} {inputs} {outputs}", "mine-2.0"),
        ("/bin/sh {model} {inputs} --out={outputs}", "sh"),
    ],
)
def test_names_of_commands(command, name):
    assert find_command(command).name == name
    assert find(command) == find_command(command)


def command(fault: str) -> TargetSpec:
    """Return the faulty runtime as a program."""
    return find_command(f"env FAULTY={fault} {sys.executable} {FAULTY} {{model}} {{inputs}} {{outputs}}")


def test_a_command_computes():
    with Process(command("none"), time_limit=LONG) as process:
        assert process.run(POW).tolist() == [[4, 27, 2]]
        output = process.run(SMALL)
    assert is_right(output, [4, 3], ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("dies", "crashed", "died of SIGSEGV"),
        ("raises", "refused", "exited with status 1: KeyError: 'no kernel at 0x...\\nand more'"),
        ("exits", "refused", "exited with status 0, and wrote no outputs"),
    ],
)
def test_a_command_fails(fault, kind, message):
    one = np.array([3], np.int32)
    case = Case("onnx.PRelu-9/int32,int32/values/0", "onnx.PRelu-9", "values", (one, one))
    with Process(command(fault), time_limit=LONG) as process:
        assert process.run(case) == Outcome(kind, message)


def test_a_command_that_writes_rubbish():
    spec = find_command("sh -c 'echo rubbish > {outputs}; : {model} {inputs}'")
    with Process(spec, time_limit=LONG) as process:
        rubbish = Outcome("refused", "its outputs: not a .npz file: File is not a zip file")
        assert process.run(POW) == rubbish


def test_a_module_beside_a_program_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("my_kernel_beside.py").write_text("def pow(x, y):\n    return x**y\n")
    Path("my_kernel_beside").write_bytes(b"\x7fELF")
    spec = find("my_kernel_beside:pow")
    assert (spec.code, spec.argument) == ("arrays.function", "my_kernel_beside:pow")
