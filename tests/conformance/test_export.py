"""Exported cases, run by the onnx package's own backend test runner."""

import importlib.util
import json
import subprocess
import sys
import unittest
import warnings

import numpy as np
import onnx
import pytest
from onnx.backend.test.loader import load_model_tests
from tests.backend.package import backend_test
from tests.conformance.cases.test_cases import quick

import halfulp.backend
from halfulp.conformance.case import GROUPS, parse
from halfulp.conformance.cases import case
from halfulp.conformance.export import Exported, export, folder_name, tolerances
from halfulp.conformance.targets.models import model_inputs
from halfulp.errors import HalfulpError


def some():
    """Cases of all groups and versions, a few of each; those of the legacy axis that have most to get wrong."""
    legacy = [one for one in of_onnx() if "onnx.Pow-1/float32,float32/broadcast/3x3x3" in one.id]
    return [*of_onnx()[::17], *(one for one in legacy if one not in of_onnx()[::17])]


def of_onnx():
    return [one for one in quick() if one.row.standard == "onnx"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    return folder, export(folder, some(), ulp_limit=0)


def test_the_counts_are_those_of_the_folders(exported):
    folder, counts = exported
    assert counts.valid == len(list((folder / "valid").iterdir())) > 80
    assert counts.invalid == len(list((folder / "invalid").iterdir())) > 4
    assert counts.valid + counts.invalid + counts.left_out == len(some())
    ids = [json.loads(path.read_text())["id"] for path in folder.glob("*/*/data.json")]
    assert {parse(id).group for id in ids} == set(GROUPS)


def suite(folder):
    """The runner that runtimes use, over our folders in place of its own."""
    runner = backend_test(__name__)
    runner._test_items.clear()
    for one in load_model_tests(str(folder.parent), folder.name):
        runner._add_model_test(one, "Halfulp")
    return runner.test_suite


def run(folder):
    found = unittest.TestResult()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.testing compares NaNs
        suite(folder).run(found)
    return found


def test_every_case_passes_with_halfulp(exported):
    folder, counts = exported
    found = run(folder / "valid")
    assert not found.failures + found.errors
    # For each case a second test asks for CUDA, and is skipped; CPython 3.12.1 does not count it as run.
    assert len(found.skipped) == counts.valid
    assert found.testsRun in (2 * counts.valid, counts.valid)


def test_a_wrong_output_fails(exported, tmp_path):
    one = case("onnx.Pow-15/float32,int64/values/0")
    export(tmp_path / "out", [one], ulp_limit=1)
    path = tmp_path / "out" / "valid" / folder_name(one) / "test_data_set_0" / "output_0.pb"
    tensor = onnx.load_tensor(path)
    right = onnx.numpy_helper.to_array(tensor).copy()
    place = int(np.argmax(np.isfinite(right) & (abs(right) > 1) & (abs(right) < 1e6)))
    for factor, fails in ((1 + 2**-24, False), (1 + 2**-20, True)):
        wrong = right.astype(np.float64)
        wrong.ravel()[place] *= factor
        path.write_bytes(onnx.numpy_helper.from_array(wrong.astype(np.float32)).SerializeToString())
        found = run(tmp_path / "out" / "valid")
        assert len(found.failures) == fails


def test_every_invalid_case_is_refused_by_halfulp(exported):
    folder, _ = exported
    for model in (folder / "invalid").glob("*/model.onnx"):
        told = json.loads((model.parent / "data.json").read_text())
        assert told["refused_by"].startswith(parse(told["id"]).operator)
        assert told["text"]
        assert not list(model.parent.glob("*/output*"))
        files = sorted((model.parent / "test_data_set_0").glob("input_*.pb"))
        inputs = [onnx.numpy_helper.to_array(onnx.load_tensor(path)) for path in files]
        assert len(inputs) == len(model_inputs(case(told["id"])))
        # The clause, or for a wrong declaration of the output that.
        words = f"{told['refused_by']}|contradicts the model's declaration"
        with pytest.raises(HalfulpError, match=words):
            halfulp.backend.run_model(onnx.load(model), inputs)


def test_what_is_left_out(tmp_path):
    left_out = [
        "onnx.Pow-15/int32,int32/special/grid-open",  # open elements
        "onnx.Pow-1/float32,float32/broadcast/2x3x4,4,axis=-1,broadcast=1",  # an open attribute
        "onnx.Pow-7/float32,float32/reproducibility/threads-2",
        "openvino.Power-1/float32,float32/values/0",
    ]
    assert export(tmp_path / "out", map(case, left_out)) == Exported(0, 0, len(left_out))


def test_tolerances():
    assert tolerances(np.zeros(1, np.float32), 4) == {"rtol": 4 * 2.0**-23, "atol": 4 * 2.0**-149}
    assert tolerances(np.zeros(1, np.int8), 4) == {"rtol": 0, "atol": 0}


def test_all_or_nothing(tmp_path):
    def broken():
        yield case("onnx.Pow-7/float32,float32/values/0")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        export(tmp_path / "out", broken())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_has_something_in_it(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(HalfulpError, match="exists already, and is not an empty folder"):
            export(place, [])
    with pytest.raises(HalfulpError, match="can't be written"):
        export(tmp_path / "file" / "out", [])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_folder_names_are_distinct_and_plain():
    names = {folder_name(one) for one in of_onnx()}
    assert len(names) == len(of_onnx())
    assert max(map(len, names)) < 128


def test_the_program_beside_the_cases_finds_what_is_wrong(tmp_path):
    ids = ("onnx.Pow-15/float32,int64/values/0", "onnx.PRelu-16/bfloat16,bfloat16/special/all")
    folder = tmp_path / "cases"
    export(folder, map(case, (*ids, "onnx.Pow-7/float32,float32/invalid/C3-float64,float32")))
    (tmp_path / "wrong.py").write_text(
        "from halfulp.backend import run_model as exact\n"
        "def run_model(model, inputs, device):\n    return [abs(result) for result in exact(model, inputs)]\n"
    )

    def printed(*arguments: str) -> str:
        command = [sys.executable, str(folder / "run.py"), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert printed("halfulp.backend") == ""
    lines = printed("wrong").splitlines()
    assert {line.partition(": ")[0] for line in lines} == {*ids}
    assert all(" at [" in line for line in lines)
    if importlib.util.find_spec("onnxruntime"):
        assert "refused" in printed()  # it has no PRelu of bfloat16
