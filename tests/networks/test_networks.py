"""Each verb on networks that packages of the index ship, and what they give beside plain ONNX Runtime."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app
from halfulp.conformance.case import Case
from halfulp.conformance.judge import at_least, grades_of
from halfulp.conformance.targets import BUILT_IN
from halfulp.installed import has_module
from halfulp.models.onnx import load, parse
from halfulp.models.onnx.checks import label
from halfulp.models.onnx.infer import held_tensor
from halfulp.models.run.inputs import fit

ort: Any = pytest.importorskip("onnxruntime")
plugin: Any = pytest.importorskip("halfulp.integrations.onnxruntime")
engine: Any = pytest.importorskip("halfulp.integrations.onnxruntime.engine")

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
tool = importlib.import_module("try_networks")
sys.path.pop(0)

RANK = "rank has to be known"
EXPECTED = {
    ("silero_vad", "to OpenVINO's IR"): (2, RANK),
    ("silero_vad_16k_op15", "to OpenVINO's IR"): (2, RANK),
    ("silero_vad_half", "to OpenVINO's IR"): (2, RANK),
    # ONNX Runtime sums otherwise in opset 19 and later.
    ("open-nsfw", "opset 21"): (0, "but by the order of the runtime's sums"),
}
"""What does not succeed: the exit status and words of the output."""


def path_of(network: Any) -> Path:
    path: Path | None = network.path
    if path is None:
        pytest.skip(f"{network.package} is not installed")
    return path


SLOW = ("PP-OCR angle classifier", "opset 21")
# Those that have neighbours of the same form are for make exhaustive.
ALIKE = (
    "MTCNN rnet",
    "silero_vad_16k_op15",
    "silero_vad_op18_ifless",
    "PP-OCR detector",
    "PP-OCR recogniser",
)
NETWORKS = [
    pytest.param(network, id=network.name, marks=[pytest.mark.exhaustive] if network.name in ALIKE else [])
    for network in tool.NETWORKS
]
# One verb of a network, and another of the next one; make exhaustive takes all.
EACH = [
    pytest.param(
        network,
        verb,
        id=f"{network.name}-{verb}",
        marks=[]
        if ((i + j) % len(tool.VERBS) == 0 and (network.name, verb) != SLOW)
        or (network.name, verb) in EXPECTED
        else [pytest.mark.exhaustive],
    )
    for i, network in enumerate(tool.NETWORKS)
    for j, verb in enumerate(tool.VERBS)
]


@pytest.mark.parametrize(("network", "verb"), EACH)
def test_a_verb(network, verb, tmp_path, monkeypatch):
    if verb == "to OpenVINO's IR":
        pytest.importorskip("openvino")
    monkeypatch.chdir(tmp_path)
    words = [word.replace("{}", str(path_of(network))) for word in tool.VERBS[verb]]
    result = CliRunner().invoke(app, words)
    status, told = EXPECTED.get((network.name, verb), (0, ""))
    findings = (1,) if verb == "audit" else ()
    assert result.exit_code in (status, *findings), result.output
    assert told in result.output
    assert "Traceback" not in result.output
    if words[0] == "convert" and status < 2:
        assert (tmp_path / words[2]).is_file()
        assert "not verified" not in result.output


@pytest.mark.filterwarnings("ignore:the norms around")
@pytest.mark.parametrize("network", NETWORKS)
def test_in_onnx_runtime(network):
    """Our kernels change an output by no more than other roundings of a few nodes do."""
    path = path_of(network)
    model: Any = load(path)
    inputs = fit(model, engine.runner(parse(path)))[0].inputs(model, 0)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    expected = ort.InferenceSession(path, options).run(None, inputs)
    for keep_fusions in (False, True):
        got = plugin.session(path, keep_fusions=keep_fusions).run(None, inputs)
        for ours, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())


# Array libraries, which load no network, and the onnx package's evaluator compute each node alone.
ALONE = ("torch", "jax", "numpy", "onnx-reference")


def top_nodes(path: Path, targets: Sequence[str]) -> tuple[Any, list[tuple[Any, Any]]]:
    """Return a network, and the Pow and PRelu nodes of its main graph with the audit's report of each."""
    model = onnx.load(path)
    (report,) = hu.audit(path, targets).models
    said = {node.label: node for node in report.nodes}
    labels = {label(node, index, ""): node for index, node in enumerate(model.graph.node)}
    return model, [(labels[name], said[name]) for name in labels if name in said]


def compare(operator: str, said: Any, operands: Sequence[Any], got: Any) -> None:
    """Compare a runtime's results of a node with the audit's statement about it."""
    exact = np.asarray(hu.op(operator)(*operands))
    wrong = ~((got == exact) | (np.isnan(got) & np.isnan(exact)))
    if said.verdict == "exact":
        assert not wrong.any(), said
    elif said.verdict == "within":
        off = np.abs(got.astype(np.float64) - exact.astype(np.float64)) / np.abs(np.spacing(exact))
        assert off[wrong].max(initial=0) <= (said.max_ulp or 0), said  # None: signs of zeros alone may differ
    else:
        x, y = np.broadcast_arrays(*operands)
        grades = grades_of((x, y), exact, got, is_power="Pow" in operator)
        assert said.verdict == "wrong", said
        assert all(at_least(said.grade, grade) for grade in grades[wrong]), said


Run = Callable[[Mapping[str, Any]], dict[str, Any]]


def in_onnx_runtime(model: onnx.ModelProto) -> Run:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options)
    names = [info.name for info in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


def in_openvino(model: onnx.ModelProto) -> Run:
    ov: Any = pytest.importorskip("openvino")
    core = ov.Core()
    try:
        read = core.read_model(model.SerializeToString())
    except RuntimeError as error:
        if RANK in str(error):
            pytest.skip("OpenVINO refuses the network")
        raise
    compiled = core.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
        results = compiled(inputs)
        return {name: np.array(results[port]) for port in compiled.outputs for name in port.names}

    return run


@pytest.mark.parametrize(
    ("targets", "opened"),
    [(("onnxruntime", *ALONE), in_onnx_runtime), (("openvino",), in_openvino)],
    ids=["onnxruntime", "openvino"],
)
@pytest.mark.parametrize("network", NETWORKS)
def test_what_an_audit_says_of_each_node_is_so(network, targets, opened):
    """A runtime's bits of each node, of the operands that it had in the network, are as the audit says.

    A node in a branch of an If is left out, since a runtime does not give away the values there.
    """
    path = path_of(network)
    targets = [name for name in targets if has_module(BUILT_IN[name].package)]
    model, nodes = top_nodes(path, targets)
    if not nodes:
        pytest.skip("no Pow or PRelu outside of subgraphs")
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    known |= {
        node.output[0]: onnx.numpy_helper.to_array(tensor)
        for node in model.graph.node
        if (tensor := held_tensor(node)) is not None
    }
    there = (
        {info.name for info in model.graph.output} | known.keys() | {info.name for info in model.graph.input}
    )
    wanted = {name for node, _ in nodes for name in (*node.input, *node.output)} - there
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(wanted))
    loaded: Any = load(path)
    run = opened(model)

    def attempt(inputs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return run(inputs)
        except Exception as error:  # the runtimes' own, for sizes that they do not take
            raise hu.ModelError(str(error)) from None

    inputs = fit(loaded, attempt)[0].inputs(loaded, 0)
    values = known | inputs | run(inputs)
    alone = {name: BUILT_IN[name].open(1) for name in targets if name in ALONE}
    for node, said in nodes:
        operands = [np.asarray(values[name]) for name in node.input]
        results = dict.fromkeys(targets, np.asarray(values[node.output[0]]))
        for name, runtime in alone.items():
            constants = frozenset({1}) if node.input[1] in known else frozenset()
            case = Case(said.operator, said.operator, "values", tuple(operands), constants=constants)
            (results[name],) = runtime.run(*runtime.prepare(case))
        for statement in said.targets:
            compare(said.operator, statement, operands, results[statement.target])


def test_the_page_has_all_networks_and_verbs():
    text = tool.PAGE.read_text().partition(tool.FLOAT16)[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    assert set(rows) >= {network.name for network in tool.NETWORKS} | set(tool.VERBS)
    for network in tool.NETWORKS:
        (row,) = (line for line in text.splitlines() if line.startswith(f"| {network.name} |"))
        cells = [cell.strip() for cell in row.strip("| ").split("|")[1:]]
        failing = {verb for verb, cell in zip(tool.VERBS, cells, strict=True) if cell.startswith("[")}
        assert failing == {
            verb for (name, verb), (status, _) in EXPECTED.items() if status and name == network.name
        }
