"""ncnn: a net of one BinaryOp or PReLU, in float32."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.targets.arrays import Prepared, _Library

_POW = "7767517\n3 3\nInput a 0 1 a\nInput b 0 1 b\nBinaryOp p 2 1 a b c 0=6\n"
_PRELU = "7767517\n2 2\nInput a 0 1 a\nPReLU p 1 1 a c 0={}\n"


class Ncnn(_Library):
    """Loads the net, and extracts its output on vectors, with halves switched off."""

    packages = ("ncnn",)

    def __init__(self, threads: int, argument: str) -> None:
        self._ncnn: Any = import_module("ncnn")
        self._threads = threads

    def run(self, prepared: Prepared) -> list[Array]:
        x, y = (np.array(operand) for operand in np.broadcast_arrays(prepared.x, prepared.y))
        if not x.size:
            return [x]
        net = self._net(_PRELU.format(y.size), y.tobytes()) if prepared.is_prelu else self._net(_POW, b"\0")
        extractor = net.create_extractor()
        extractor.input("a", self._ncnn.Mat(x.ravel()).clone())
        if not prepared.is_prelu:
            extractor.input("b", self._ncnn.Mat(y.ravel()).clone())
        code, output = extractor.extract("c")
        if code:
            raise RuntimeError(f"extract returned {code}")
        return [np.array(output).reshape(x.shape)]

    def _net(self, text: str, weights: bytes) -> Any:
        net = self._ncnn.Net()
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.num_threads = self._threads
        with tempfile.TemporaryDirectory() as folder:
            files = Path(folder, "net.param"), Path(folder, "net.bin")
            files[0].write_text(text)
            files[1].write_bytes(weights)
            codes = net.load_param(str(files[0])), net.load_model(str(files[1]))
        if any(codes):
            raise RuntimeError(f"load_param and load_model returned {codes}")
        return net
