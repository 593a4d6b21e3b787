"""Run the cases beside this file without halfulp, and print what is wrong: python run.py [MODULE]

ONNX Runtime runs them, or a module with ``run_model`` of ``onnx.backend.base``.
"""

import ctypes
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def run_model(model: Any, inputs: list[Any], device: str) -> list[Any]:
    """Run a model in ONNX Runtime, by the addresses of arrays: it has types that NumPy lacks."""
    onnxruntime: Any = importlib.import_module("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for value, array in zip(session.get_inputs(), inputs, strict=True):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        binding.bind_input(value.name, "cpu", 0, kind, array.shape, array.ctypes.data)
    binding.bind_output(session.get_outputs()[0].name, "cpu")
    session.run_with_iobinding(binding)
    (output,) = binding.get_outputs()
    dtype = helper.tensor_dtype_to_np_dtype(model.graph.output[0].type.tensor_type.elem_type)
    data = ctypes.string_at(output.data_ptr(), int(np.prod(output.shape())) * dtype.itemsize)
    return [np.frombuffer(data, dtype).reshape(output.shape())]


def arrays(folder: Path, kind: str) -> list[Any]:
    """Return the arrays in a case's files."""
    files = sorted(folder.glob(f"*/{kind}_*.pb"))
    return [numpy_helper.to_array(onnx.load_tensor(str(file))) for file in files]


def fault(got: Any, right: Any, facts: dict[str, Any]) -> str:
    """Return the first element that is farther off than data.json allows; an empty text if there is none."""
    if got.dtype != right.dtype or got.shape != right.shape:
        return f"{got.dtype}{got.shape}, not {right.dtype}{right.shape}"
    is_wrong = got != right
    if got.dtype.kind not in "iu":
        x, y = got.astype(np.float64), right.astype(np.float64)
        is_wrong = ~np.isclose(x, y, facts["rtol"], facts["atol"], equal_nan=True)
        is_wrong |= (y == 0) & (np.signbit(x) != np.signbit(y))
    places = [tuple(place) for place in np.argwhere(is_wrong)]
    return "".join(f"{got[place]} at {list(map(int, place))}, not {right[place]}" for place in places[:1])


def main() -> None:
    run = importlib.import_module(sys.argv[1]).run_model if sys.argv[1:] else run_model
    for folder in sorted(Path(__file__).parent.glob("*valid/*")):
        facts, results = json.loads((folder / "data.json").read_text("utf-8")), arrays(folder, "output")
        try:
            (got,) = run(onnx.load(str(folder / "model.onnx")), arrays(folder, "input"), "CPU")
        except Exception as error:
            reason = "refused: " + str(error).partition("\n")[0] if results else ""
        else:
            reason = fault(got, results[0], facts) if results else f"accepted, against {facts['refused_by']}"
        if reason:
            print(f"{facts['id']}: {reason}")


if __name__ == "__main__":
    sys.path.insert(0, "")
    main()
