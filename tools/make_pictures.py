"""Make two of the README's pictures: docs/audit.svg, an audit in a terminal, and docs/check.png, the page of a check.

    python tools/make_pictures.py [audit] [check]

The audit is of a network of ``halfulp demo``. The check needs ONNX Runtime, OpenVINO and a minute, its picture
Chromium.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

DOCS = Path(__file__).parents[1] / "docs"
AUDIT = "halfulp audit halfulp-demo/face.onnx --target onnxruntime==1.31.1"
CHECK = "halfulp check onnxruntime openvino --operator onnx.Pow-15 --types float32 --html report.html"
SIZE = "1280,640"
FONT = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Rich's picture loads its font from another server; without it, the reader's own monospaced font is drawn."""


def main() -> None:
    """Run the commands and write the pictures."""
    names = sys.argv[1:] or ["audit", "check"]
    with tempfile.TemporaryDirectory() as folder:
        if "audit" in names:
            run("halfulp demo", folder)
            (DOCS / "audit.svg").write_text(terminal(AUDIT, run(AUDIT, folder)), "utf-8")
        if "check" in names:
            run(CHECK, folder)
            options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE}"]
            picture = f"--screenshot={DOCS / 'check.png'}"
            subprocess.run(["chromium", *options, picture, Path(folder, "report.html").as_uri()], check=True)


def run(command: str, folder: str) -> str:
    """Return what a command prints; status 1 says that there are findings."""
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        raise SystemExit(done.stderr)
    return done.stdout


def terminal(command: str, printed: str) -> str:
    """Return a picture of a terminal with a command and its output."""
    console = Console(record=True, width=82, file=io.StringIO())
    for line in (f"$ {command}", *printed.splitlines()):
        console.print(line, markup=False, highlight=False)
    return FONT.sub("", console.export_svg(title="halfulp audit", theme=MONOKAI, unique_id="audit"))


if __name__ == "__main__":
    main()
