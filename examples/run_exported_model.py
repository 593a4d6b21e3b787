"""Run a model that PyTorch exported, on its own stored input, and compare with its stored output bit for bit.

The model is test_PReLU_2d_multiparam, which the onnx package carries: PRelu of opset 6, a slope per channel.

Usage: python examples/run_exported_model.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

import halfulp as hu

FOLDER = Path(onnx.__file__).parent / "backend/test/data/pytorch-converted/test_PReLU_2d_multiparam"


def stored(name: str) -> NDArray[np.float32]:
    """Return a tensor that was stored beside the model."""
    return onnx.numpy_helper.to_array(onnx.load_tensor(FOLDER / "test_data_set_0" / name))


def main() -> int:
    """Return 0 where every bit agrees, else 1."""
    (result,) = hu.run(FOLDER / "model.onnx", {"0": stored("input_0.pb")}).values()
    expected = stored("output_0.pb")
    same = result.dtype == expected.dtype and result.shape == expected.shape
    differing = int((result.view(np.uint32) != expected.view(np.uint32)).sum()) if same else result.size
    print(f"{FOLDER.name}: {result.dtype}{list(result.shape)}, {differing} of {result.size} results differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
