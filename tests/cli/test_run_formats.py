"""``halfulp run`` on OpenVINO and DxDispatch files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.models.openvino_models import SMALL, WEIGHTS
from tests.models.test_dxdispatch import ROOT
from typer.testing import CliRunner

from halfulp.cli import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.xml").write_text(SMALL)
    (tmp_path / "m.bin").write_bytes(WEIGHTS)
    (tmp_path / "m.json").write_text(json.dumps(ROOT))
    np.save(tmp_path / "x.npy", np.array([[3, 2, 4]], np.float32))
    np.save(tmp_path / "a.npy", np.array([16, 25, 36], np.float32))
    return tmp_path


def ran(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["run", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("name", ["none", "x.npy"])
def test_the_output_folder_must_be_there(folder: Path, name: str) -> None:
    done = CliRunner().invoke(app, ["run", f"{folder}/m.json", "--output-folder", f"{folder}/{name}"])
    assert done.exit_code == 2
    assert done.stderr == f"HalfulpError: {folder}/{name}: there is no such folder to write to\n"


def test_dims_are_for_inputs_that_are_made_up(folder: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(folder / "m.json"), "--dim", "N=2"])
    assert done.exit_code == 2
    assert "--dim is for inputs that are made up" in done.stderr


@pytest.mark.parametrize("name", ["x", "input", "data"])
def test_an_openvino_model(folder: Path, name: str) -> None:
    out = folder / "out.npz"
    told = ran(folder / "m.xml", "-i", f"{name}={folder / 'x.npy'}", "-o", out)
    assert "openvino.Power-1" in told
    assert np.load(out)["y"].tolist() == [[3, 4, 2]]
    assert "input (made up, seed 0)" in ran(folder / "m.xml")


def test_a_dxdispatch_program(folder: Path) -> None:
    out = folder / "out.npz"
    told = ran(folder / "m.json", "-o", out)
    assert "directml.ELEMENT_WISE_CONSTANT_POW-3_0" in told
    assert np.load(out)["Out"].tolist() == [1, 2, 3]
    ran(folder / "m.json", "-i", f"A={folder / 'a.npy'}", "-o", out)
    assert np.load(out)["Out"].tolist() == [4, 5, 6]


def test_where_a_program_may_write(folder: Path) -> None:
    root = {
        **ROOT,
        "commands": [*ROOT["commands"], {"type": "writeFile", "resource": "Out", "targetPath": "o.npy"}],
    }
    (folder / "m.json").write_text(json.dumps(root))
    (folder / "out").mkdir()
    ran(folder / "m.json", "--output-folder", folder / "out")
    assert np.load(folder / "out/o.npy").tolist() == [1, 2, 3]
    assert not (folder / "o.npy").exists()
    ran(folder / "m.json")
    assert (folder / "o.npy").exists()


def test_what_is_wrong_is_told(folder: Path) -> None:
    (folder / "m.bin").unlink()
    done = CliRunner().invoke(app, ["run", str(folder / "m.xml")])
    assert done.exit_code == 2
    assert f"node 'exponent' (Const): {folder / 'm.bin'}: can't be read" in done.stderr
