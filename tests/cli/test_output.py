"""Where the verbs write."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from halfulp.cli.shared import check_writable, console, say, write_text
from halfulp.errors import HalfulpError
from halfulp.models.files import replacing


def test_a_text_is_written_whole_or_not_at_all(tmp_path, capsys):
    write_text(tmp_path / "a", "é\n")
    with pytest.raises(TypeError), replacing(tmp_path / "a") as temporary:
        temporary.write_text(None)
    assert (tmp_path / "a").read_bytes() == "é\n".encode()
    assert os.listdir(tmp_path) == ["a"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ["a\nb\n", "a\nb"])
def test_standard_output_ends_a_line_once(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_text(Path("-"), text)
    assert capsys.readouterr().out == "a\nb\n"
    assert not os.listdir(tmp_path)


def test_standard_output_is_utf8_whatever_the_terminal_is():
    code = "from pathlib import Path; from halfulp.cli.shared import write_text; write_text(Path('-'), '\\u2260')"
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout == "\u2260\n".encode()


def test_tables_make_way_for_what_takes_standard_output():
    assert console(None, Path("a.json")).stderr is False
    assert console(None, Path("-")).stderr is True


def test_control_characters_and_no_utf8_in_names(tmp_path, capsys):
    say(console(), "\x1b[31m[red]: 1 node", "a\nb")
    assert capsys.readouterr().out == "?[31m[red]: 1 node\na\nb\n"
    write_text(tmp_path / "page.html", "n\udcff.onnx")
    assert (tmp_path / "page.html").read_bytes() == b"n?.onnx"


def test_a_folder_that_can_not_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root, who may run the tests, may write anywhere
    with pytest.raises(HalfulpError, match="a: can't be written: Permission denied"):
        check_writable(tmp_path / "a")
