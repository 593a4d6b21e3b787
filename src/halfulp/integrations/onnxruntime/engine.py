"""ONNX Runtime as the engine of ``halfulp run``: outputs, and its profile of the run as a report."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto

from halfulp.errors import HalfulpError, ModelError, UnsupportedError, command, printable
from halfulp.integrations import onnxruntime as plugin
from halfulp.models.graph import Model, describe
from halfulp.models.onnx import Onnx
from halfulp.models.onnx.walk import SUPPORTED_OPS, default_opset, graphs, is_ours
from halfulp.models.run.inputs import bind
from halfulp.models.run.report import NodeRun, RunReport
from halfulp.specs import in_force
from halfulp.types import TYPES

_TYPE_NAMES = {row.onnx: row.name for row in TYPES.values() if row.onnx}
_TIMED = "_kernel_time"
_WITH_SUBGRAPHS = ("If", "Loop", "Scan")
# An error of halfulp's kernels within a message of onnxruntime.
_BREACH = re.compile(r"(Pow|PRelu)\w* node\. Name:'(.*)' Status Message: (.+) \((onnx\.\S+)\)\n  (.+)")
_KIND = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")  # precedes its messages


class Refused(UnsupportedError):
    """ONNX Runtime is missing, is too old, or refuses the model."""


def open_profiled(
    model: Onnx, inputs: Mapping[str, Any], *, runs: int = 1, **settings: Any
) -> tuple[Any, dict[str, Any], list[RunReport]]:
    """Return a session, the outputs of a model, and a report of each of several runs; later ones make no profile."""
    fed = _fed(model, inputs)
    with tempfile.TemporaryDirectory(prefix="halfulp-") as profiles:
        session = open_session(model, profile=str(Path(profiles) / "profile"), **settings)
        for _ in range(runs):
            outputs = run_in(session, model, fed)
        events = json.loads(Path(session.end_profiling()).read_text())
    owners = (*model.proto.functions, model.proto)
    opset = default_opset([entry for owner in owners for entry in owner.opset_import]) or 1
    return session, outputs, list(_reports(events, opset))


def runner(model: Onnx, **settings: Any) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function that runs a model in a session of :func:`open_session`."""
    session = open_session(model, **settings)
    return lambda inputs: run_in(session, model, _fed(model, inputs))


def _fed(model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Check inputs and return them as arrays for onnxruntime, without the optional inputs that are absent."""
    values = bind(model, inputs)
    return {name: values[name] for name in inputs if values[name] is not None}


def run_in(session: Any, model: Model, inputs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return plugin.run(session, inputs)
    except Exception as error:  # onnxruntime's error classes are not public
        if breach := _BREACH.search(str(error)):
            kind, name, fault, clause, operands = breach.groups()
            shown = dict(text.split(": ", 1) for text in operands.split("   "))
            node = _label(name, kind) if name else kind
            raise ModelError(fault, file=model.file, node=node, clause=clause, **shown) from None
        raise ModelError(f"fails in onnxruntime: {_text(error)}", file=model.file) from None


def open_session(
    model: Onnx, *, exact: bool = True, optimized: bool = True, threads: int = 0, profile: str = ""
) -> Any:
    """Return a session, with halfulp's kernels if ``exact``; may it replace nodes, and its threads (0: it chooses).

    ``profile`` is the prefix of the names of profiles, if it makes any.
    """
    proto, file = model.proto, model.file
    try:
        ort = plugin.installed()
        options = ort.SessionOptions()
        options.log_severity_level = 4  # errors have the same texts
        options.intra_op_num_threads = threads
        # Threads that spin would slow other timed code.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0" if threads else "1")
        if profile:
            options.enable_profiling, options.profile_file_prefix = True, profile
        if not optimized:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            # By default casts of all weights run first, and their results are in memory together.
            options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
        plugin.find_external_data(options, model)
        if not exact:
            return ort.InferenceSession(proto.SerializeToString(), options)
        return plugin.open_session(_named(proto) if profile else proto, options)
    except HalfulpError as error:
        if error.clause is not None:
            raise
        place = "" if error.node is None else f"{file}: node {error.node}: "
        raise Refused(f"{place}{error.message}", **error.shown) from None
    except Exception as error:  # as above
        reason = _text(error)
        types = {info.type.tensor_type.elem_type for info in (*proto.graph.input, *proto.graph.output)}
        if "Could not find an implementation" in reason and TensorProto.BFLOAT16 in types:
            reason += f"; bfloat16 has few kernels: {command(file, 'convert', float32='all')}"
        raise Refused(f"{file}: refused by onnxruntime: {reason}") from None


def _named(model: ModelProto) -> ModelProto:
    """Return a model whose Pow and PRelu nodes without a name have their place as name, as in messages."""

    def unnamed(model: ModelProto) -> list[tuple[NodeProto, int]]:
        owners = chain.from_iterable(map(graphs, (model.graph, *model.functions)))
        nodes = ((node, place) for _, owner in owners for place, node in enumerate(owner.node))
        return [(node, place) for node, place in nodes if is_ours(node) and not node.name]

    named = deepcopy(model) if unnamed(model) else model
    for node, place in unnamed(named):
        node.name = f"#{place}"
    return named


def _reports(events: list[dict[str, Any]], opset: int) -> Iterator[RunReport]:
    """Yield the report of each run from a profile. The event of a whole run comes after those of its nodes."""
    timed: list[dict[str, Any]] = []
    for event in events:
        if event["name"] == "model_run":
            yield _report(timed, opset)
            timed = []
        elif event.get("cat") == "Node" and event["name"].endswith(_TIMED):
            timed.append(event)


def _report(timed: list[dict[str, Any]], opset: int) -> RunReport:
    rows: dict[str, NodeRun] = {}
    for event, own in zip(timed, _own_times(timed), strict=True):
        name, facts = event["name"].removesuffix(_TIMED), event["args"]
        kind, _, of_custom = facts["op_name"].partition("_")
        ours = facts["provider"] == plugin.PROVIDER or (kind in SUPPORTED_OPS and of_custom)
        operator = in_force("onnx", kind, opset).id if ours else facts["op_name"]
        label = _label(name, kind if ours else operator)
        row = rows.setdefault(label, NodeRun(label, operator, "halfulp" if ours else "onnxruntime"))
        row.inputs, row.outputs = (_shown(facts.get(f"{end}_type_shape", [])) for end in ("input", "output"))
        row.seconds += own / 1e6
        row.calls += 1
    return RunReport(list(rows.values()))


def _label(name: str, kind: str) -> str:
    return f"{name} ({kind})" if name.startswith("#") else f"'{printable(name)}' ({kind})"


def _own_times(events: Sequence[dict[str, Any]]) -> list[int]:
    """Return the microseconds of each node without those of the nodes in its subgraphs."""
    own = [event["dur"] for event in events]
    around: list[int] = []
    for index in sorted(range(len(events)), key=lambda i: (events[i]["ts"], -events[i]["dur"])):
        start = events[index]["ts"]
        while around and start >= events[around[-1]]["ts"] + events[around[-1]]["dur"]:
            around.pop()
        if around:
            own[around[-1]] -= events[index]["dur"]
        if events[index]["args"]["op_name"] in _WITH_SUBGRAPHS:
            around.append(index)
    return [max(time, 0) for time in own]


def _shown(values: list[dict[str, list[int]]]) -> tuple[str, ...]:
    items = (item for value in values for item in value.items())
    return tuple(describe(_TYPE_NAMES.get(kind, kind), tuple(dims)) for kind, dims in items)


def _text(error: Exception) -> str:
    """Return onnxruntime's message without its prefixes."""
    text = str(error).strip() or type(error).__name__
    return printable(_KIND.sub("", " ".join(text.split())), most=1000)
