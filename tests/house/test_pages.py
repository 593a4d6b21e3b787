"""The pages that people read first: their examples run, their commands exist, their links lead somewhere.

tools/try_wheel.py runs this file where nothing but the wheel is installed. If an example or a command needs more,
its page has to say so.
"""

import doctest
import itertools
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from halfulp.cli import app
from halfulp.cli.programs import NETWORKS
from halfulp.installed import has_module

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    return [text for kind, text in FENCE.findall(page.read_text()) if kind == language]


def commands(page: Path) -> list[list[str]]:
    """Return the command lines of a page, as words, comments dropped."""
    lines = "".join(blocks(page, "console")).splitlines()
    found = [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]
    # NAME=value before a command sets its environment.
    return [list(itertools.dropwhile(lambda word: "=" in word, words)) for words in found]


@pytest.fixture
def jax_defaults() -> Iterator[None]:
    """JAX as a page's reader has it: a peer of the benchmark, in the same process, allows 64-bit types."""
    if "jax" in sys.modules:
        import jax

        before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", False)
        yield
        jax.config.update("jax_enable_x64", before)
    else:
        yield


@page
@pytest.mark.usefixtures("jax_defaults")
def test_python_examples_give_what_the_page_shows(page):
    if page.parent.name == "integrations" and page.stem != "numpy":
        # What the whole page is about: of ONNX Runtime, the oldest that takes an execution provider with kernels.
        pytest.importorskip(page.stem, minversion="1.24" if page.stem == "onnxruntime" else None)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    source = "\n".join(block for block in blocks(page, "pycon") if is_installed(block, page))
    test = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    assert not report, "".join(report)


IMPORT = re.compile(r"^>>> (?:from halfulp\.integrations import|import|from) (\w+)", re.MULTILINE)


def is_installed(block: str, page: Path) -> bool:
    """Return whether the packages that a block imports are there; the page must name those that are not."""
    missing = [name for name in IMPORT.findall(block) if not has_module(name)]
    prose = FENCE.sub("", page.read_text()).lower().replace(" ", "")
    assert not [name for name in missing if name not in prose]
    return not missing


@page
def test_links_and_paths_exist(page):
    text = page.read_text()
    prose = FENCE.sub("", text)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link]
    missing = []
    for link in links:
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(link)
    # `core/loop.h` in backticks is a promise too.
    named = re.findall(r"`([\w.-]+/[\w./-]*)`", prose)
    missing += [n for n in named if n.split("/")[0] in TOP_FOLDERS and not (ROOT / n).exists()]
    assert not missing


TOP_FOLDERS = {"core", "native", "src", "tests", "tools", "data", "benchmarks", "examples", "docs"}


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@page
def test_make_targets_exist(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in commands(page):
        if words[0] == "make":
            assert next(word for word in words[1:] if "=" not in word) in targets


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the pages' commands name."""
    folder = tmp_path_factory.mktemp("pages")
    shutil.copytree(NETWORKS, folder / "halfulp-demo")
    (kernel,) = blocks(ROOT / "docs/how-to/check-your-runtime.md", "python")[:1]
    (folder / "my_kernel.py").write_text(kernel)
    from onnx import TensorProto, helper, save

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])
    graph = helper.make_graph([helper.make_node("Pow", ["x", "x"], ["y"])], "model", [x], [y])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)]), folder / "model.onnx")
    if has_module("openvino"):
        from openvino import Model, opset1, save_model

        parameter = opset1.parameter([-1], np.float32, name="x")
        save_model(Model([opset1.multiply(parameter, parameter)], [parameter]), folder / "model.xml")
    np.save(folder / "x.npy", np.linspace(0, 3, 7, dtype=np.float32))
    np.save(folder / "y.npy", np.linspace(3, 0, 7, dtype=np.float32))
    return folder


LINES = sorted({tuple(words) for path in PAGES for words in commands(path) if words[0] == "halfulp"})


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_commands_run(words, folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, words[1:])
    wanted = re.findall(r"'halfulp\[(\w+)\]'", done.output) if done.exit_code == 2 else []
    if wanted:
        texts = [path.read_text() for path in PAGES if list(words) in commands(path)]
        assert all(any(f"halfulp[{name}]" in text or f"{name} " in text for name in wanted) for text in texts)
        pytest.skip(f"needs {' or '.join(wanted)}, as the page says")
    finds = words[1] in ("audit", "check")  # what an installed runtime does may be a finding: 1
    assert done.exit_code in ((0, 1) if finds else (0,)), done.output
    assert done.stdout
    if "-o" in words:
        assert (folder / words[words.index("-o") + 1]).exists()


def sessions(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page about the networks of ``halfulp demo``, with the lines shown below each."""
    parts = re.split(r"^\$ ", "".join(blocks(page, "console")), flags=re.MULTILINE)
    found = [(line, shown) for line, _, shown in (part.partition("\n") for part in parts) if shown.strip()]
    return [(line, shown) for line, shown in found if line.startswith("halfulp ") and "halfulp-demo/" in line]


SHOWN = sorted({session for path in PAGES for session in sessions(path)})


@pytest.mark.parametrize(("line", "shown"), SHOWN, ids=[line for line, _ in SHOWN])
def test_commands_print_what_the_page_shows(line, shown, folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.OutputChecker().check_output(shown, done.stdout, flags), done.output
