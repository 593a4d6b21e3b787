"""The words of each verb, and users' reports tried by its commands, as the golden files have them."""

import pytest
from tests.golden import FILES, parts, played, write

SECTIONS = [
    pytest.param(file, number, id=f"{file.stem}: {section.splitlines()[0][3:]}")
    for file in FILES
    for number, section in enumerate(parts(file))
    if number
]


@pytest.mark.newer
@pytest.mark.parametrize(("file", "number"), SECTIONS)
def test_what_a_verb_prints(file, number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for engine in ("onnxruntime", "openvino") if file.parts[-3] == "integrations" else ():
        pytest.importorskip(engine)
    described, *sections = parts(file)
    write(described)
    section = sections[number - 1]
    assert played(section).rstrip() == section.rstrip()
