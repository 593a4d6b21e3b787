"""Compare powers of a runtime's own with the same after halfulp's two lines, for 16 and for 10^6 float32 elements.

Both take turns, so that other load on the machine affects both. A ratio is the median of the turns' ratios. OpenVINO is
measured with halfulp's operators in Python and in C++, which are compiled for that.

Usage: python benchmarks/runtimes.py [--quick] [--threads N]
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any
from unittest import mock

import numpy as np
from onnx import parser

import halfulp as hu
from halfulp.benchmark.comparison import in_turns, ratio, sampler, summary
from halfulp.installed import has_module
from halfulp.operators import instruction_set

Runs = dict[str, Callable[[], object]]

TEXT = '<ir_version: 8, opset_import: ["": 15]> g (float[N] x, float[N] y) => (float[N] z) { z = Pow(x, y) }'


def in_onnxruntime(x: Any, y: Any, threads: int) -> Runs:
    """Sessions of one Pow, with bound memory."""
    ort: Any = importlib.import_module("onnxruntime")
    from halfulp.integrations import onnxruntime as hort

    def run(make: Callable[[bytes, Any], Any]) -> Callable[[], object]:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = make(parser.parse_model(TEXT).SerializeToString(), options)
        binding = session.io_binding()
        for name, value in (("x", x), ("y", y)):
            binding.bind_cpu_input(name, value)
        binding.bind_output("z")
        return partial(session.run_with_iobinding, binding)

    return {"own": run(ort.InferenceSession), "halfulp": run(hort.session)}


def in_openvino(x: Any, y: Any, threads: int) -> Runs:
    """Compiled models of one Power."""
    ov: Any = importlib.import_module("openvino")
    o: Any = importlib.import_module("openvino.opset13")
    from halfulp.integrations import openvino as hov

    def run(replace: Callable[[Any], Any]) -> Callable[[], object]:
        a, b = (o.parameter(list(array.shape), np.float32) for array in (x, y))
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
        request = ov.Core().compile_model(replace(ov.Model([o.power(a, b)], [a, b])), "CPU", settings)
        request = request.create_infer_request()
        return lambda: request.infer([x, y], share_inputs=True, share_outputs=True)

    with mock.patch.object(hov, "_factory", return_value=None):  # as where the library is not built
        in_python = run(hov.replace)
    runs = {"own": run(lambda model: model), "halfulp in Python": in_python}
    hov.build()
    return {**runs, "halfulp": run(hov.replace)}


def in_torch(x: Any, y: Any, threads: int) -> Runs:
    """Tensors."""
    torch: Any = importlib.import_module("torch")
    from halfulp.integrations import torch as htorch

    torch.set_num_threads(threads)
    a, b = torch.from_numpy(x), torch.from_numpy(y)

    def powers() -> None:
        for _ in range(_calls(a.numel())):
            a**b

    def exact_powers() -> None:
        with htorch.exact():
            powers()

    return {"own": powers, "halfulp": exact_powers}


def _calls(size: int) -> int:
    return 2000 if size < 1000 else 2  # so that the kernels' registration does not count


def in_jax(x: Any, y: Any, threads: int) -> Runs:
    """x ** y under jit, on XLA's own threads."""
    jax: Any = importlib.import_module("jax")
    from halfulp.integrations import jax as hjax

    a, b = jax.numpy.asarray(x), jax.numpy.asarray(y)
    own, ours = jax.jit(lambda x, y: x**y), jax.jit(lambda x, y: hjax.pow(x, y))
    return {
        "own": lambda: own(a, b).block_until_ready(),
        "halfulp": lambda: ours(a, b).block_until_ready(),
    }


RUNTIMES: dict[str, Callable[[Any, Any, int], Runs]] = {
    "onnxruntime": in_onnxruntime,
    "openvino": in_openvino,
    "torch": in_torch,
    "jax": in_jax,
}


def rows(threads: int, seconds: float) -> Iterator[tuple[str, int, str, float, float]]:
    """Yield a runtime, a number of elements, who computes, the microseconds of a call and the ratio to its own."""
    rng = np.random.default_rng(1)
    for runtime, make in RUNTIMES.items():
        for size in (16, 10**6) if has_module(runtime) else ():
            x, y = (rng.uniform(low, 4, size).astype(np.float32) for low in (0.1, -4))
            samples = {who: sampler(call) for who, call in make(x, y, threads).items()}
            times = in_turns(samples, seconds, least=10)
            calls = _calls(size) if runtime == "torch" else 1
            for who in times:
                microseconds = summary(times[who]).median * 1e6 / calls
                yield runtime, size, who, microseconds, ratio(times[who], times["own"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--threads", type=int, default=1, help="of a runtime, but JAX (default 1)")
    arguments = parser.parse_args()
    print(f"halfulp {hu.__version__} ({instruction_set()}), threads: {arguments.threads}; a call of x ** y")
    for runtime, size, who, microseconds, quotient in rows(
        arguments.threads, 0.3 if arguments.quick else 3.0
    ):
        name = f"{runtime} {version(runtime).partition('+')[0]}"
        print(f"{name:24}{size:>10}  {who:20}{microseconds:>10.1f} us{quotient:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
