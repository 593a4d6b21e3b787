"""A folder of models: every one is looked at, whatever is wrong with others."""

import inspect
import json
import os
import sys
from pathlib import Path

import onnx
import pytest
from tests.integrations.ir_models import SMALL, WEIGHTS
from tests.models.onnx_models import single

import halfulp as hu

GOOD = single("Pow", 15, {"x": ("float32", [3]), "y": ("float32", [3])})
BAD = single("Pow", 15, {"x": ("float32", [3]), "y": ("float32", [2])})


def names(folder: Path) -> list[str]:
    """Return the files that are audited."""
    return [model.file for model in hu.audit(folder, ()).models]


def test_one_bad_file_does_not_stop_the_rest(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"\x08\x08garbage")
    onnx.save(GOOD, tmp_path / "b.onnx")
    onnx.save(BAD, tmp_path / "c.onnx")
    os.mkfifo(tmp_path / "d.onnx")
    (tmp_path / "e.onnx").symlink_to("nowhere")
    (tmp_path / "e.xml").symlink_to("nowhere")
    (tmp_path / "f.xml").write_text("<!DOCTYPE x><net/>")
    (tmp_path / "h.onnx").mkdir()
    report = hu.audit(tmp_path, ())
    kinds = {model.file: [finding.kind for finding in model.findings] for model in report.models}
    assert kinds == {
        "a.onnx": ["file"],
        "b.onnx": [],
        "c.onnx": ["clause"],
        "d.onnx": ["file"],
        "e.onnx": ["file"],
        "f.xml": ["file"],
    }
    for model in report.models:
        assert model.error is None or (model.file in model.error and "\n" not in model.error)
    assert "d.onnx: not a plain file" in str(report)
    page = report.html()
    assert [f"Nodes of {name}.onnx" in page for name in "ac"] == [False, True]
    assert "no Pow, no PRelu" not in page


def test_folders_may_nest_deeper_than_calls(tmp_path):
    deep = tmp_path.joinpath(*["a"] * 300)
    deep.mkdir(parents=True)
    onnx.save(GOOD, deep / "m.onnx")
    assert names(deep) == ["m.onnx"]  # this imports what it needs
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    try:
        assert names(tmp_path) == [f"{'a/' * 300}m.onnx"]
    finally:
        sys.setrecursionlimit(limit)


def test_only_models_are_looked_at(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "pom.xml").write_text("<project/>")
    (tmp_path / "x.bin").write_bytes(b"net")
    (tmp_path / "deep/er").mkdir(parents=True)
    (tmp_path / "deep/er/m.xml").write_text(SMALL)
    (tmp_path / "deep/er/m.bin").write_bytes(WEIGHTS)
    onnx.save(GOOD, tmp_path / "deep/M.ONNX")
    assert names(tmp_path) == ["deep/M.ONNX", "deep/er/m.xml"]


def test_loops_of_links(tmp_path):
    models = tmp_path / "models"
    (models / "a").mkdir(parents=True)
    onnx.save(GOOD, models / "a/m.onnx")
    (models / "a/up").symlink_to(models)
    (models / "self").symlink_to("self")
    (models / "b").symlink_to(models / "a")
    assert names(models) == ["a/m.onnx"]
    (tmp_path / "link").symlink_to(models)
    assert names(tmp_path / "link") == ["a/m.onnx"]


def test_a_large_tree(tmp_path):
    deep = tmp_path
    for level in range(200):
        deep = deep / f"d{level % 10}"
    deep.mkdir(parents=True)
    onnx.save(GOOD, deep / "m.onnx")
    for index in range(3000):
        (tmp_path / f"{index}.txt").touch()
    seen: list[str] = []
    report = hu.audit(tmp_path, progress=seen.append)
    assert seen == [model.file for model in report.models]
    assert len(seen) == 1


def test_a_folder_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    onnx.save(GOOD, tmp_path / "m.onnx")
    real = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = hu.audit(tmp_path, ())
    assert [finding.text for finding in report.findings] == ["can't be read: Permission denied"]
    assert [model.file for model in report.models] == ["m.onnx", "closed"]


def test_names_that_can_not_be_printed(tmp_path):
    onnx.save(GOOD, tmp_path / "ok.onnx")
    os.rename(os.fsencode(tmp_path / "ok.onnx"), os.fsencode(tmp_path) + b"/n\xff\n\x1b[2J.onnx")
    report = hu.audit(tmp_path, ())
    assert report.models[0].file == "n\ufffd??[2J.onnx"
    json.dumps(report.json()).encode("ascii")
    assert report.models[0].error is None


def test_nothing_to_audit(tmp_path):
    with pytest.raises(hu.HalfulpError, match="no models"):
        hu.audit(tmp_path, ())
    with pytest.raises(hu.HalfulpError, match="inputs are for one model, and this is a folder"):
        hu.audit(tmp_path, (), samples=1)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError(), "not enough memory"),
        (RecursionError(), "it nests too deep"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (OSError("no number"), "OSError"),
    ],
)
def test_whatever_goes_wrong_with_a_file(tmp_path, monkeypatch, error, text):
    onnx.save(GOOD, tmp_path / "m.onnx")

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("halfulp.auditing.api.of_onnx", fail)
    (finding,) = hu.audit(tmp_path, ()).findings
    assert finding.text == text
