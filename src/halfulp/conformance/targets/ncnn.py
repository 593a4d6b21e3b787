"""ncnn: a net of one BinaryOp or PReLU, in float32 with halves switched off."""

import tempfile
from pathlib import Path
from typing import Any

import ncnn
import numpy as np

POW = "7767517\n3 3\nInput a 0 1 a\nInput b 0 1 b\nBinaryOp p 2 1 a b c 0=6\n"
PRELU = "7767517\n2 2\nInput a 0 1 a\nPReLU p 1 1 a c 0={}\n"

options = {"num_threads": 1}


def set_threads(threads: int) -> None:
    options["num_threads"] = threads


def pow(x: Any, y: Any) -> Any:
    x, y = np.broadcast_arrays(x, y)
    return run(POW, b"\0", x, y)


def prelu(x: Any, slope: Any) -> Any:
    x, slope = np.broadcast_arrays(x, slope)
    return run(PRELU.format(slope.size), slope.tobytes(), x)


def run(text: str, weights: bytes, *inputs: Any) -> Any:
    shape = inputs[0].shape
    if not inputs[0].size:
        return inputs[0]
    net = ncnn.Net()
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.num_threads = options["num_threads"]
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "net.param"), Path(folder, "net.bin")
        files[0].write_text(text)
        files[1].write_bytes(weights)
        codes = net.load_param(str(files[0])), net.load_model(str(files[1]))
    if any(codes):
        raise RuntimeError(f"load_param and load_model returned {codes}")
    extractor = net.create_extractor()
    for name, array in zip("ab", inputs, strict=False):
        extractor.input(name, ncnn.Mat(np.array(array).ravel()).clone())
    code, output = extractor.extract("c")
    if code:
        raise RuntimeError(f"extract returned {code}")
    return np.array(output).reshape(shape)
