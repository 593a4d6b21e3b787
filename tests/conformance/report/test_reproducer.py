"""The programs of the findings: run as they are, where the runtime is installed, they show what was found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from ctypes.util import find_library as find_c_library
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gmpy2")

from tests.conformance.report.documents import Document, document

from halfulp.conformance.case import Case, expected, operands_at, parse
from halfulp.conformance.cases import cases
from halfulp.conformance.check import check_target, selection
from halfulp.conformance.document import CaseEntry, dumps, loads
from halfulp.conformance.examine import Options
from halfulp.conformance.judge import shown
from halfulp.conformance.report import targets
from halfulp.conformance.report.reproducer import (
    comment,
    keywords,
    literal,
    repetition,
    reproducer,
    reproducers,
)
from halfulp.conformance.targets import BUILT_IN, find_library
from halfulp.specs import find

# Reads programs, and answers each with its output or its exception. One process loads a runtime once.
RUNNER = """
import contextlib, io, json, sys
for line in sys.stdin:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(json.loads(line), "program", "exec"), {"__name__": "__main__"})
        answer = ["printed", printed.getvalue()]
    except Exception as error:
        answer = ["raised", f"{type(error).__name__}: {error}"]
    print("answer", json.dumps(answer), flush=True)
"""


def run(programs: Sequence[tuple[str, ...]]) -> list[tuple[str, str]]:
    """Return for each program whether it ``printed`` or ``raised``, and what."""
    lines = "".join(json.dumps("".join(program)) + "\n" for program in programs)
    command = [sys.executable, "-W", "ignore", "-c", RUNNER]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("answer ")]
    assert len(answers) == len(programs)
    return [(kind, text) for kind, text in answers]


def bits(printed: str, *names: str) -> tuple[str, str]:
    """Return the bits of what was expected and of what a runtime gave, as a program prints them."""
    lines = [line.split() for line in printed.strip().splitlines()]
    assert [line[0] for line in lines] == list(names or ("expected", "got"))
    return lines[0][-1], lines[1][-1]


# What a runtime computes depends on the processor; which cases it takes does not.
@pytest.mark.parametrize(
    ("name", "operators", "types", "taken_or_not"),
    [
        ("onnxruntime", ["onnx.Pow-7"], [], {"accepted"}),
        ("onnxruntime", ["onnx.PRelu-16"], ["bfloat16"], {"refused"}),
        ("onnx-reference", ["onnx.Pow-1"], ["float16"], {"refused", "accepted"}),
        ("onnx-converter", ["onnx.PRelu-6"], ["float32"], set()),
        ("openvino", ["onnx.Pow-15"], ["uint8"], {"accepted"}),
        ("openvino-native", ["openvino.Power-1"], ["bfloat16"], set()),
        ("numpy", ["onnx.Pow-15"], ["int32"], {"refused"}),
        ("torch", ["onnx.Pow-15"], ["uint8"], set()),
        ("jax", ["onnx.PRelu-16"], ["float32"], set()),
    ],
)
def test_a_program_shows_what_check_found(
    name: str, operators: list[str], types: list[str], taken_or_not: set[str]
) -> None:
    if find_spec(BUILT_IN[name].package) is None:
        pytest.skip(f"no {name} on this machine")
    found = check_target(
        BUILT_IN[name],
        mode="quick",
        selection=selection(operators, (), types),
        options=Options(threads=1, time_limit=600),
        processes=1,
    ).document
    (target,) = targets([found])
    differing = [entry for entry in found["reproducibility"] if entry["verdict"] == "differs"]
    # A few of each kind.
    kinds: dict[tuple[str, str], list[CaseEntry]] = {}
    for entry in found["cases"]:
        if entry["verdict"] != "unspecified":
            kinds.setdefault((entry["verdict"], entry["group"]), []).append(entry)
    assert taken_or_not <= {verdict for verdict, _ in kinds}
    if not kinds and not differing:
        pytest.skip(f"{name} computes all of this right on this processor")
    entries = [entry for some in kinds.values() for entry in some[:2]]
    programs = reproducers([(target, entry) for entry in entries])
    answers = run([*programs, *(repetition(target, one) for one in differing)])
    for entry, (kind, text) in zip(entries, answers, strict=False):
        if entry["example"] is not None:
            assert kind == "printed", (entry["id"], text)
            example = entry["example"]
            assert bits(text) == (example["expected"]["bits"], example["got"]["bits"]), entry["id"]
        elif entry["verdict"] == "refused":
            assert kind == "raised", entry["id"]
        elif entry["verdict"] == "wrong":  # by its type or shape, of which no element can be shown
            assert entry["message"] is not None, entry["id"]
        else:
            assert entry["verdict"] == "accepted", entry["id"]
            assert text.startswith(f"accepted, though {entry['clause']} forbids it:"), entry["id"]
    for differs, (_, text) in zip(differing, answers[len(entries) :], strict=True):
        example = differs["example"]
        assert bits(text, "first", "again") == (example["first"]["bits"], example["again"]["bits"])


def entry_of(case: Case) -> Any:
    """Return what a document would say of a case of which the first element is wrong."""
    right = np.asarray(expected(case))
    index = (0,) * right.ndim
    value = shown(right[index])
    inputs = [shown(element) for element in operands_at(case, index)]
    return document("torch")["cases"][0] | {
        "id": case.id,
        "operator": case.operator,
        "types": list(parse(case.id).types),
        "group": case.group,
        "shapes": [list(shape) for shape in case.shapes],
        "attributes": dict(case.attributes),
        "constants": sorted(case.constants),
        "verdict": "wrong",
        "example": {"index": list(index), "inputs": inputs, "expected": value, "got": value, "ulp": None},
    }


def target_of(name: str, **versions: str) -> Any:
    """Return a target of some name."""
    (target,) = targets([document("torch") | {"target": {"name": name, "versions": versions}}])  # type: ignore[list-item]
    return target


@pytest.mark.parametrize(
    "operator",
    ["onnx.Pow-1", "onnx.PRelu-16", "sonnx.Pow-15", "openvino.Power-1", "directml.ELEMENT_WISE_POW-3_0"],
)
@pytest.mark.parametrize("name", ["halfulp", "halfulp.backend", "onnxruntime:halfulp"])
def test_programs_with_halfulp_itself_give_the_right_results(operator: str, name: str) -> None:
    if name.startswith("onnxruntime"):
        pytest.importorskip("onnxruntime", "1.25")
    if name != "halfulp" and "onnx." not in operator:
        pytest.skip("it takes ONNX models")
    one_of_each: dict[tuple[str, str, int], Case] = {}
    for case in cases(
        "quick", [operator], types=["int4"] if operator.startswith("openvino.") else ["float16"]
    ):
        if case.clause is None and sum(array.size for array in case.inputs) > 0:
            one_of_each.setdefault((case.operator, case.group, len(case.constants)), case)
    entries = [entry_of(case) for case in one_of_each.values() if np.asarray(expected(case)).size]
    assert len(entries) > 4
    programs = [reproducer(target_of(name, halfulp="0.1.0"), entry) for entry in entries]
    for entry, (kind, text) in zip(entries, run(programs), strict=True):
        assert kind == "printed", (entry["id"], text)
        assert bits(text) == (entry["example"]["expected"]["bits"],) * 2, entry["id"]


@pytest.mark.parametrize("name", [*BUILT_IN, "litert:builtin_ref"])
def test_every_target_that_is_built_in_has_code_of_its_own(name: str) -> None:
    operator = "openvino.Power-1" if name == "openvino-native" else "onnx.Pow-15"
    case = next(cases("quick", [operator], types=["float32"]))
    program = "".join(reproducer(target_of(name, some="1.0"), entry_of(case)))
    compile(program, name, "exec")
    code = "".join(line for line in program.splitlines() if not line.startswith("#"))
    known = {"inductor": "torch.compile", "mnn": "MNN.expr", "libm": "find_library"}
    assert known.get(name, name.partition("-")[0].partition(":")[0]) in code
    assert name == "halfulp" or "halfulp" not in code
    assert ("set_variant('builtin_ref')" in code) == (name == "litert:builtin_ref")
    assert "importlib" not in program
    assert "subprocess" not in program


@pytest.mark.parametrize("name", ["torch", "ncnn", "tensorflow", "litert:builtin_ref"])
def test_a_program_uses_the_threads_of_its_case(name: str) -> None:
    (threads,) = (
        each for each in cases("quick", ["onnx.Pow-15"], types=["float32,float32"]) if each.threads == 2
    )
    program = "".join(reproducer(target_of(name, some="1.0"), entry_of(threads)))
    assert "\nset_threads(2)\n" in program or "\ntorch.set_num_threads(2)\n" in program


@pytest.mark.parametrize("name", ["torch (cuda)", "jax (cuda)", "onnxruntime:cuda"])
def test_a_device_is_named(name: str) -> None:
    case = next(cases("quick", ["onnx.Pow-15"], types=["float32"]))
    program = "".join(reproducer(target_of(name, some="1.0"), entry_of(case)))
    compile(program, name, "exec")
    assert "'cuda'" in program or '"cuda"' in program


TOOL = """
import sys
import numpy as np
import onnx
import halfulp.backend
model = onnx.load(sys.argv[1])
fed = np.load(sys.argv[2])
kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
feeds = {name: fed[name].view(onnx.helper.tensor_dtype_to_np_dtype(kinds[name])) for name in fed}
(output,) = halfulp.backend.run_model(model, feeds)
np.savez(sys.argv[3], **{model.graph.output[0].name: output.view(f"u{output.itemsize}")})
"""


@pytest.mark.parametrize("types", ["float32", "bfloat16"])
def test_a_program_for_a_command_takes_it_as_its_arguments(types: str, tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text(TOOL)
    case = next(cases("quick", ["onnx.PRelu-16"], types=[types]))
    entry = entry_of(case)
    program = "".join(reproducer(target_of("tool"), entry))
    (tmp_path / "reproducer.py").write_text(program)

    def program_of(name: str) -> list[str]:
        return [sys.executable, str(tmp_path / name)]

    done = subprocess.run(
        [*program_of("reproducer.py"), *program_of("tool.py"), "{model}", "{inputs}", "{outputs}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "python reproducer.py mytool {model} {inputs} {outputs}" in program
    assert bits(done.stdout) == (entry["example"]["expected"]["bits"],) * 2


@pytest.mark.parametrize("name", ["mine:pow", "folder/mine.py:pow", "mine.py:Backend", "mine:Backend"])
def test_programs_for_objects_of_a_module(name: str, tmp_path: Path) -> None:
    folder = tmp_path / ("folder" if name.startswith("folder") else "")
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(
        "from halfulp import pow\nfrom halfulp.backend import HalfulpBackend as Backend\n"
    )
    entry = entry_of(next(cases("quick", ["onnx.Pow-15"], types=["float32"])))
    (tmp_path / "reproducer.py").write_text("".join(reproducer(target_of(name, mine="1.0"), entry)))
    command = [sys.executable, "reproducer.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert bits(done.stdout) == (entry["example"]["expected"]["bits"],) * 2


@pytest.mark.parametrize("place", ["{libm}:fmaxf", "mine={libm}:fmaxf"])
def test_a_program_for_a_function_of_a_library(place: str) -> None:
    """The document keeps the library's file, whatever the target's name is."""
    found = check_target(
        find_library(place.format(libm=find_c_library("m"))),
        mode="quick",
        selection=selection((), (), (), (), "onnx.Pow-15/float32,float32/special/grid"),
        options=Options(threads=1),
        processes=1,
    ).document
    (found,) = loads(dumps([found]))
    (kind, text), *_ = run(
        reproducers([(target, entry) for target in targets([found]) for entry in found["cases"]])
    )
    example = found["cases"][0]["example"]
    assert example is not None
    assert (kind, bits(text)) == ("printed", (example["expected"]["bits"], example["got"]["bits"]))


PIPE = """
import sys
import numpy as np
import halfulp as hu
name, x_type, y_type, count, x_bytes, y_bytes = sys.stdin.buffer.readline().decode().split()
x = np.frombuffer(sys.stdin.buffer.read(int(x_bytes)), x_type)
y = np.frombuffer(sys.stdin.buffer.read(int(y_bytes)), y_type)
assert name == "prelu" and x.size == int(count)
sys.stdout.buffer.write(b"ok\\n" + hu.prelu(x, y).tobytes())
"""


def test_a_program_for_a_command_that_reads_elements(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text(PIPE)
    entry = entry_of(next(cases("quick", ["onnx.PRelu-16"], types=["float32"])))
    (tmp_path / "reproducer.py").write_text("".join(reproducer(target_of("tool"), entry)))
    command = [sys.executable, str(tmp_path / "reproducer.py"), sys.executable, str(tmp_path / "tool.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert bits(done.stdout) == (entry["example"]["expected"]["bits"],) * 2


def test_a_case_that_is_generated_no_more_is_rebuilt_from_the_document() -> None:
    (first, *_) = document("openvino", extra_cases=1)["cases"][-1:]
    text = "".join(reproducer(target_of("onnx-reference"), first))
    assert "x = np.full((1000,), 0x00000000, np.uint32).view(np.float32)  # 0\n" in text
    assert "index = (0,)" in text


def test_what_is_no_case_of_ours_gives_comments_only() -> None:
    entry: Document = document("torch")["cases"][0] | {
        "id": "other.Op-1/float32/values/0",
        "operator": "other.Op-1",
    }
    text = "".join(reproducer(target_of("torch"), entry))  # type: ignore[arg-type]
    assert all(line.startswith("#") for line in text.splitlines())
    assert "no operator version other.Op-1" in text


@pytest.mark.parametrize("name", list(find("openvino.Power-1").type_variables["T"]))
def test_an_array_is_written_bit_for_bit(name: str) -> None:
    import ml_dtypes

    from halfulp.types import element_type

    kind = element_type(name).dtype
    for size in (0, 1, 6, 1000):
        raw = np.random.default_rng(7).integers(0, 256, size * kind.itemsize, np.uint8)
        if element_type(name).bits < 8:
            raw &= 15
        array = raw.view(kind)
        import base64
        import zlib

        made = eval(literal(array), {"np": np, "ml_dtypes": ml_dtypes, "base64": base64, "zlib": zlib})
        assert made.dtype == array.dtype
        assert made.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"broadcast": 1, "axis": -1}, ", axis=-1, broadcast=1"),
        ({"x": float("nan")}, ", x=float('nan')"),
        ({"no name": "text", "class": 1}, ", **{'class': 1, 'no name': 'text'}"),
    ],
)
def test_attributes_as_code(attributes: dict[str, Any], code: str) -> None:
    assert keywords(attributes) == code


def test_a_message_does_not_become_code() -> None:
    assert comment("bad\nimport os", "") == "# bad import os\n"
