"""MkDocs hooks that add the pages outside docs/ and the reference from docstrings to the site.

The pages are written for readers of the repository. On the site the README is the first page, the other pages of the
root have a section of their own, and links between pages lead to the site's pages.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[1]
FINDINGS = ROOT / "docs" / "findings" / "README.md"
BUILT = ROOT / "build" / "docs" / "float32.html"
DIGEST = ROOT / "build" / "wasm" / "digest.html"

ROOT_PAGES = {
    "README.md": "index.md",
    "docs/index.md": "index.md",
    **{
        f"{name}.md": f"{name.lower()}.md"
        for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY")
    },
    "CODE_OF_CONDUCT.md": "code_of_conduct.md",
    "LICENSE": "license.md",
}
"""The site's page for each page of the root. docs/index.md is replaced by the site's navigation."""

LINK = re.compile(r"(\]\()([^)#:\s]+)(#[^)\s]*)?(\))")
SECTION = re.compile(r"^(.+)/$")

API = """# In Python

The public functions and classes of halfulp. `import halfulp as hu` loads neither the onnx package nor a runtime.

::: halfulp.operators.pow

::: halfulp.operators.float_power

::: halfulp.operators.prelu

::: halfulp.operators.op

::: halfulp.operators.ops

::: halfulp.operators.Operator
    options: { members: [__call__, infer, plan, function_body], inherited_members: true }

::: halfulp.types.TensorType

::: halfulp.running.run

::: halfulp.conversion.convert

::: halfulp.conversion.Conversion

::: halfulp.conversion.repair.repair

::: halfulp.conversion.repair.Repair

::: halfulp.auditing.api.audit

::: halfulp.auditing.report.AuditReport

::: halfulp.conformance.check.check

::: halfulp.conformance.check.CheckReport

## Errors

::: halfulp.errors
    options:
      show_root_heading: false
      show_root_toc_entry: false
      members: [HalfulpError, SpecError, ModelError, MissingFileError, UnsupportedError, HalfulpWarning]

## Integrations

::: halfulp.integrations.onnxruntime
    options: { members: [session, provider, register, patch, library, run] }

::: halfulp.integrations.openvino
    options: { members: [replace] }

::: halfulp.integrations.torch
    options: { members: [exact, pow, prelu, replace, restore, PReLU] }

::: halfulp.integrations.numpy

::: halfulp.integrations.jax

::: halfulp.integrations.dask

## The exact oracles

::: halfulp.reference
    options: { members: [pow, prelu] }
"""


def on_config(config: Any) -> Any:
    """Replace a folder's name in the navigation by the folder's pages."""
    config.nav = [_expanded(entry, Path(config.docs_dir)) for entry in config.nav]
    return config


def _expanded(entry: Any, docs: Path) -> Any:
    if not isinstance(entry, dict):
        return entry
    ((title, target),) = entry.items()
    if isinstance(target, list):
        return {title: [_expanded(inner, docs) for inner in target]}
    folder = SECTION.fullmatch(target)
    if folder is None:
        return entry
    pages = sorted((docs / folder[1]).glob("*.md"), key=_natural)
    return {title: [{_title(page): str(page.relative_to(docs))} for page in pages]}


def _title(page: Path) -> str:
    heading = re.search(r"^# (.+)$", page.read_text(), re.MULTILINE)
    return heading[1] if heading else page.stem


def _natural(page: Path) -> list[Any]:
    """Return a sort key: an index first, numbers in names by value."""
    is_index = page.stem in ("index", "README")
    parts = re.split(r"(\d+)", page.stem)
    return [not is_index, *((part.isdigit(), int(part) if part.isdigit() else part) for part in parts)]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    index = files.get_file_from_path("index.md")
    if index is not None:
        files.remove(index)
    for source, page in ROOT_PAGES.items():
        if source == "docs/index.md":
            continue
        text = (ROOT / source).read_text()
        content = f"# License\n\n```text\n{text}```\n" if source == "LICENSE" else _on_site(text, ".")
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, "api.md", content=API))
    files.append(File.generated(config, f"findings/{BUILT.name}", content=_side_by_side()))
    digest = (
        DIGEST.read_text() if DIGEST.exists() else "<!doctype html>\n<title>Not made</title>\n<p>make wasm\n"
    )
    files.append(File.generated(config, DIGEST.name, content=digest))
    return files


def _side_by_side() -> str:
    """Return the page of the findings for float32, made by the command that docs/findings/README.md shows.

    It takes minutes, so the page is kept in build/docs. If the runtimes are not installed, a page with the error is
    returned instead.
    """
    (command,) = re.findall(
        r"^```sh\n(halfulp check .*?)^```$", FINDINGS.read_text(), re.MULTILINE | re.DOTALL
    )
    if not BUILT.exists():
        BUILT.parent.mkdir(parents=True, exist_ok=True)
        words = shlex.split(command.replace("\\\n", " "))[1:-1]
        run = [sys.executable, "-m", "halfulp", *words, str(BUILT)]
        done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=ROOT)
        if not BUILT.exists():  # exit status 1 only means that there were findings
            said = html.escape(f"{command}\n{done.stderr}")
            return f"<!doctype html>\n<title>Not made</title>\n<p>This page was not made:</p>\n<pre>{said}</pre>\n"
    return BUILT.read_text()


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite the links of a page of docs/ to pages of the root."""
    if page.file.generated_by is not None:
        return markdown
    folder = Path("docs", page.file.src_uri).parent
    made = BUILT if folder == FINDINGS.parent.relative_to(ROOT) else DIGEST
    markdown = markdown.replace(f"`{made.name}`", f"[{made.name}]({made.name})")
    return _on_site(markdown, folder.as_posix())


def _on_site(markdown: str, folder: str) -> str:
    """Return a page with its links rewritten for the site.

    Args:
        markdown: the page.
        folder: the page's folder in the repository.
    """

    def turned(link: re.Match[str]) -> str:
        place = os.path.relpath(ROOT / folder / link[2], ROOT)
        if place not in ROOT_PAGES and not place.startswith("docs/"):
            return link[0]
        page = ROOT_PAGES.get(place, place.removeprefix("docs/"))
        here = os.path.relpath(folder, "docs") if folder != "." else "."
        return f"{link[1]}{os.path.relpath(page, here)}{link[3] or ''}{link[4]}"

    # Python-Markdown does not support a backslash before these.
    return LINK.sub(turned, markdown).replace("\\<", "&lt;").replace("\\>", "&gt;")


SHIM = re.compile(r'<script src="?https://unpkg\.com/iframe-worker/shim"?></script>')
"""The theme's search on local files loads a script from another server. docs/search.js does the same."""


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Replace the script in a page."""
    return SHIM.sub(f'<script src="{get_relative_url("search.js", page.url)}"></script>', output)


def on_post_template(output: str, template_name: str, config: Any) -> str:
    """Remove the script from a page that has no file, such as the error page."""
    return SHIM.sub("", output)
