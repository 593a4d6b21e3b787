"""ncnn: a net of one BinaryOp or PReLU, in float32 with halves switched off."""

from typing import Any

import ncnn
import numpy as np

POW = "7767517\n3 3\nInput a 0 1 a\nInput b 0 1 b\nBinaryOp p 2 1 a b c 0=6\n"
PRELU = "7767517\n2 2\nInput a 0 1 a\nPReLU p 1 1 a c 0={}\n"


def set_threads(threads: int) -> None:
    ncnn.set_omp_num_threads(threads)


def pow(x: Any, y: Any) -> Any:
    return run(POW, b"\0", *np.broadcast_arrays(x, y))


def prelu(x: Any, slope: Any) -> Any:
    x, slope = np.broadcast_arrays(x, slope)
    return run(PRELU.format(slope.size), slope.tobytes(), x)


def run(text: str, weights: bytes, *inputs: Any) -> Any:
    if not inputs[0].size:
        return inputs[0]
    net = ncnn.Net()
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.num_threads = ncnn.get_omp_num_threads()
    if net.load_param_mem(text) or net.load_model_mem(weights):
        raise RuntimeError("the net was not loaded")
    extractor = net.create_extractor()
    for name, array in zip("ab", inputs, strict=False):
        extractor.input(name, ncnn.Mat(np.array(array).ravel()).clone())
    code, output = extractor.extract("c")
    if code:
        raise RuntimeError(f"extract returned {code}")
    return np.array(output).reshape(inputs[0].shape)
