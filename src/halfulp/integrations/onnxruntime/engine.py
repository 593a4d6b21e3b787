"""ONNX Runtime as the engine of ``halfulp run``: the outputs, and its own profile of the run as our report."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onnx import GraphProto, ModelProto, helper

from halfulp.errors import ModelError, UnsupportedError
from halfulp.integrations import onnxruntime as plugin
from halfulp.integrations.onnxruntime.inline import subgraphs
from halfulp.integrations.onnxruntime.rewrite import DOMAIN, patched
from halfulp.models.graph import Model, describe, printable
from halfulp.models.onnx import parse
from halfulp.models.run.inputs import bind
from halfulp.models.run.report import NodeRun, Report
from halfulp.types import TYPES

_TYPE_NAMES = {row.onnx: row.name for row in TYPES.values() if row.onnx}
_TIMED = "_kernel_time"
_KIND = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")  # stands before what it says


class Refused(UnsupportedError):
    """ONNX Runtime is not there, is too old, or does not take the model."""


def run_with_report(path: Path, model: Model, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], Report]:
    """Run a model once in a session of ours.

    Args:
        path: the ONNX file.
        model: the same, as :func:`halfulp.models.onnx.load` read and checked it.
        inputs: arrays by name.

    Raises:
        ModelError: an input contradicts what the model declares, or a node fails on its operands.
        Refused: onnxruntime is missing, too old, or refuses the model.
    """
    bind(model, inputs)
    with tempfile.TemporaryDirectory(prefix="halfulp-") as folder:
        session, operators = _session(path, str(Path(folder) / "profile"))
        outputs = _run(session, model, inputs)
        events = json.loads(Path(session.end_profiling()).read_text())
    return outputs, _report(events, operators)


def runner(
    source: Path | ModelProto, model: Model, *, folder: Path | None = None, optimized: bool = True
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function that runs a model as :func:`run_with_report` does, as often as it is called.

    Args:
        source: the ONNX file, or the model.
        model: the same, as it was read and checked.
        folder: where the external data of a model that is no file lies.
        optimized: whether ONNX Runtime may put other nodes in the place of the model's.

    Raises:
        Refused: onnxruntime is missing, too old, or refuses the model. What it returns raises ModelError.
    """
    session, _ = _session(source, None, folder, optimized=optimized)

    def run(inputs: Mapping[str, Any]) -> dict[str, Any]:
        bind(model, inputs)
        return _run(session, model, inputs)

    return run


def _run(session: Any, model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return plugin.run(session, inputs)
    except Exception as error:  # of a class of onnxruntime's own, for want of a public one
        raise ModelError(f"fails in onnxruntime: {_text(error)}", file=model.file) from None


def _session(
    source: Path | ModelProto, profile: str | None, folder: Path | None = None, *, optimized: bool = True
) -> tuple[Any, dict[str, str]]:
    """Return a session, with a profile if asked, and the id of our operator version by node and custom operator."""
    proto, file, own_folder = parse(source)
    folder = own_folder or folder
    try:
        ort = plugin.installed()
        options = ort.SessionOptions()
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = profile
        if not optimized:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4  # what it logs stands in the error, too
        if folder is not None:
            plugin.find_external_data(options, proto, file, folder)
        proto = patched(proto, file)
        operators: dict[str, str] = {}
        _name_ours(proto.graph, operators)
        return plugin.session(proto, options), operators
    except ModelError:
        raise
    except UnsupportedError as error:
        shown: Mapping[str, Any] = error.shown
        raise Refused(error.message, **shown) from None
    except Exception as error:  # as above
        raise Refused(f"{file}: refused by onnxruntime: {_text(error)}") from None


def _name_ours(graph: GraphProto, operators: dict[str, str]) -> None:
    """Name our nodes that have no name as messages do, by their place, and note what they are."""
    for index, node in enumerate(graph.node):
        if node.domain == DOMAIN:
            node.name = node.name or f"#{index}"
            told = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name == "version"}
            operators[f"{node.name} {node.op_type}"] = told["version"].decode()
        for attribute in node.attribute:
            for subgraph in subgraphs(attribute):
                _name_ours(subgraph, operators)


def _report(events: list[dict[str, Any]], operators: Mapping[str, str]) -> Report:
    rows: dict[str, NodeRun] = {}
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith(_TIMED):
            continue
        name, told = event["name"].removesuffix(_TIMED), event["args"]
        version = operators.get(f"{name} {told['op_name']}")
        operator = told["op_name"] if version is None else version
        kind = told["op_name"] if version is None else version.partition(".")[2].partition("-")[0]
        label = f"{name} ({kind})" if name.startswith("#") else f"'{printable(name)}' ({kind})"
        row = rows.setdefault(
            label, NodeRun(label, operator, "onnxruntime" if version is None else "halfulp")
        )
        row.inputs = tuple(_shown(told.get("input_type_shape", [])))
        row.outputs = tuple(_shown(told.get("output_type_shape", [])))
        row.seconds += event["dur"] / 1e6
        row.calls += 1
    return Report(list(rows.values()))


def _shown(values: list[dict[str, list[int]]]) -> list[str]:
    return [
        describe(_TYPE_NAMES.get(kind, kind), tuple(dims)) for value in values for kind, dims in value.items()
    ]


def _text(error: Exception) -> str:
    """Return what onnxruntime says, without its own decoration; a refusal of ours as it is."""
    text = str(error).strip() or type(error).__name__
    ours = text.partition("Status Message: ")[2]
    if ours.startswith("SpecError "):
        return ours
    return printable(_KIND.sub("", " ".join(text.split())), most=1000)
