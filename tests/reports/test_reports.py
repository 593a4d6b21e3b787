"""Public bug reports, tried as their reporters would: the audit names a command, and what it writes is right.

Each model is made here with the facts of a report. The commands that the audit prints are run as they are printed, and
the written model must load in ONNX Runtime and give the outputs of the model that the reporter meant.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, parser
from onnx.reference import ReferenceEvaluator
from typer.testing import CliRunner

import halfulp as hu
from halfulp.cli import app

DOCS = Path(__file__).parents[2] / "docs"

# For each report: the model as it was reported, what is to be replaced in it to make the right one, and the opset (and
# the IR version, 8 where not given). The first address is the report whose facts these are.
SLOPES: dict[str, tuple[str, dict[str, str], tuple[int, ...]]] = {
    # https://github.com/NVIDIA/TensorRT/issues/310: ncnn's landmark network; slopes are inputs, as in IR version 3
    "slope tensor must be unidirectional broadcastable to input tensor": (
        """landmarks (float[1, 3, 8, 8] data, float[4, 3, 3, 3] w, float[4] s) => (float[1, 4, 6, 6] y)
        <float[4, 3, 3, 3] w, float[4] s = {0.25, -1, 2, 0.5}> { c = Conv(data, w)  y = PRelu(c, s) }""",
        {"float[4] s": "float[4, 1, 1] s"},
        (8, 3),
    ),
    # https://github.com/onnx/models/issues/91, 135, 240, 279; microsoft/onnxruntime 462: ArcFace from MXNet
    "Attempting to broadcast an axis by a dimension other than 1. 64 by 112": (
        """arcface (float[1, 3, 6, 6] data, float[4, 3, 1, 1] w, float[4] g, float[4] b, float[4] m, float[4] v,
        float[4] relu0_gamma, float[4] relu1_gamma) => (float[1, 4, 6, 6] y) <float[4, 3, 1, 1] w, float[4] g =
        {1, 2, 3, 4}, float[4] b = {0, 0, 1, 1}, float[4] m = {0, 1, 0, 1}, float[4] v = {1, 1, 2, 2}, float[4]
        relu0_gamma = {0.25, -1, 2, 0.5}, float[4] relu1_gamma = {1, 2, 3, 0.125}> { c = Conv(data, w)
        n = BatchNormalization<epsilon = 0.001>(c, g, b, m, v)  relu0 = PRelu(n, relu0_gamma)
        d = Identity(relu0)  y = PRelu(d, relu1_gamma) }""",
        {"float[4] relu": "float[4, 1, 1] relu", "float[4]\n        relu": "float[4, 1, 1] relu"},
        (7, 3),
    ),
    # https://github.com/apache/tvm/issues/4427: every PRelu of a network for faces, one slope read by two of them
    "PReLU dimension mismatch error when converting ONNX model to TVM": (
        """face (float[1, 3, 4, 4] x) => (float[1, 3, 4, 4] y) <float[3] s = {0.25, -1, 2}> {
        p = PRelu(x, s)  q = Neg(p)  r = PRelu(q, s)  y = Add(p, r) }""",
        {"float[3]": "float[3, 1, 1]"},
        (9, 4),
    ),
    # https://github.com/PaddlePaddle/Paddle2ONNX/pull/246: X has four dims and the slope two
    "shape of slope in PRelu is 2-D Tensor": (
        "paddle (float[N, 3, 4, 5] x) => (float[N, 3, 4, 5] y) <float[1, 3] s = {0.25, -1, 2}> { y = PRelu(x, s) }",
        {"float[1, 3] s": "float[3, 1, 1] s"},
        (11, 7),
    ),
    # https://github.com/htshinichi/caffe-onnx/pull/34: each slope gets three dims, after an InnerProduct too
    "PReLU params of fixed shape [dim, 1, 1]": (
        """caffe (float[2, 5] x) => (float[2, 3] y) <float[5, 3] w, float[3] b = {1, 2, 3}, float[3, 1, 1] s =
        {0.25, -1, 2}> { f = Gemm(x, w, b)  y = PRelu(f, s) }""",
        {"float[3, 1, 1] s": "float[3] s"},
        (9, 4),
    ),
    # https://github.com/pytorch/pytorch/issues/70570: torch exports PReLU of a scalar with a slope of shape (1,)
    "Incorrect ONNX Export for Unidirectional Broadcasting in PReLU": (
        "scalar (float x) => (float y) <float[1] s = {0.25}> { y = PRelu(x, s) }",
        {"float[1] s": "float s"},
        (13,),
    ),
    # https://github.com/chainer/onnx-chainer/pull/222: a slope for each of five features of a sequence
    "to support Chainer's broadcasting on PRelu": (
        "chainer (float[2, 5, 3] x) => (float[2, 5, 3] y) <float[5] w = {1, 2, 3, 4, 5}> { y = PRelu(x, w) }",
        {"float[5] w": "float[5, 1] w"},
        (8, 3),
    ),
    # https://github.com/apache/mxnet/issues/18509; kneron/ONNX_Convertor 32: the batch and the image are of any size
    "MXNet exported onnx are from opset9, with 1-D PRelu weight": (
        """mxnet (float[N, 3, H, W] x) => (float[N, 4, H, W] y) <float[4, 3, 1, 1] w, float[4] s = {0.25, -1, 2, 0.5}>
        { c = Conv(x, w)  y = PRelu(c, s) }""",
        {"float[4] s": "float[4, 1, 1] s"},
        (9, 4),
    ),
    # https://github.com/llvm/torch-mlir/issues/1087: torch.nn.functional.prelu of three dims, slopes of dim 1
    "op inferred input/output operand #1 has shape's dimension #0 to be 3, but found 4": (
        "mlir (float[3, 4, 3] x, float[4] w) => (float[3, 4, 3] y) { y = PRelu(x, w) }",
        {"PRelu(x, w)": "PRelu(x, u)", "{ y": "<int64[2] shape = {4, 1}> { u = Reshape(w, shape)  y"},
        (16,),
    ),
    # https://github.com/NVIDIA/apex/issues/229, microsoft/onnxruntime pull 20428, onnx/onnxmltools 617: a network in
    # float16 whose slopes stay in float32
    "expected scalar type Half but found Float": (
        """half (float16[1, 3, 2, 4] x) => (float16[1, 3, 2, 4] y) <float[3, 1, 1] s = {0.25, -1, 2}> {
        y = PRelu(x, s) }""",
        {"<float[3, 1, 1] s = {0.25, -1, 2}": "<float16[3, 1, 1] s = {13312, 48128, 16384}"},
        (13, 7),
    ),
    # https://github.com/pytorch/pytorch/issues/95365, PaddlePaddle/Paddle pull 67085, webmachinelearning/webnn 660: the
    # same in bfloat16, for which ONNX Runtime has no PRelu
    "prelu: Type promoting not supported. Got BFloat16 and Float": (
        """vnet (float[1, 3, 2, 4] x) => (float[1, 3, 2, 4] y) <float[3, 1, 1] s = {0.25, -1, 2}> {
        b = Cast<to = 16>(x)  p = PRelu(b, s)  y = Cast<to = 1>(p) }""",
        {"p = PRelu(b, s)": "f = Cast<to = 1>(b)  q = PRelu(f, s)  p = Cast<to = 16>(q)"},
        (16,),
    ),
    # https://github.com/NVIDIA/TensorRT/issues/2162: slopes that are quantized, too
    "PRelu is not integrated with QDQ": (
        """qdq (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) <int8[3] s = {10, -20, 30}, float k = {0.01},
        int8 z = {0}> { q = QuantizeLinear(x, k, z)  d = DequantizeLinear(q, k, z)  t = DequantizeLinear(s, k, z)
        y = PRelu(d, t) }""",
        {"int8[3] s": "int8[3, 1, 1] s"},
        (13, 7),
    ),
}

POWERS: dict[str, tuple[str, dict[str, str], tuple[int, ...]]] = {
    # https://github.com/microsoft/onnxruntime/issues/5696: x.pow(2) of halves, exported at opset 11
    "Pow operator fails to support mixed types for base and power for opset 11": (
        "half (float16[2, 2] x) => (float16[2, 2] y) { e = Constant<value = float {2}>()  y = Pow(x, e) }",
        {"float {2}": "float16 {16384}"},
        (11, 6),
    ),
    # https://github.com/pytorch/pytorch/issues/52436: torch.pow(2, x); the power of floats is cast to an integer
    "Type (tensor(float)) of output arg (y) of node (Cast_1) does not match expected type (tensor(int64))": (
        """torch (float[1, 10] x) => (float[1, 10] y) { two = Constant<value = int64 {2}>()  b = Cast<to = 1>(two)
        p = Pow(b, x)  y = Cast<to = 7>(p) }""",
        {"to = 7": "to = 1"},
        (9, 6),
    ),
    # https://github.com/microsoft/onnxscript/pull/3036: 2.5 ** integers; the base is cast to the exponent's type
    "Type (tensor(float)) of output arg (pow_1) of node (node_pow_1) does not match expected type": (
        """torch (int64[3] x) => (float[3] pow_1) { base = Constant<value = float {2.5}>()  cast = Cast<to = 7>(base)
        pow_1 = Pow(cast, x) }""",
        {"Pow(cast": "Pow(base"},
        (18, 10),
    ),
    # https://github.com/onnx/onnx/issues/4549, 3409: bfloat16 exponents in opset 13
    "Y typestr: T1, has unsupported type: tensor(bfloat16)": (
        """bf (float[3] x) => (float[3] y) { a = Cast<to = 16>(x)  e = Constant<value = bfloat16 {16384}>()
        p = Pow(a, e)  y = Cast<to = 1>(p) }""",
        {},
        (13,),
    ),
    # https://github.com/microsoft/onnxruntime/issues/25522, 4405; k2-fsa/icefall 2011: a converter to float16
    # changes the declaration and leaves the Cast
    "Type (tensor(float16)) of output arg of node (Cast) does not match expected type (tensor(float))": (
        """fp16 (float16[4] x) => (float16[4] y) <float16[4] k = {1, 2, 3, 4}, float16 e = {16384}, float16[4] c> {
        i = Cast<to = 6>(x)  c = Cast<to = 1>(i)  d = Mul(c, k)  y = Pow(d, e) }""",
        {"c = Cast<to = 1>": "c = Cast<to = 10>"},
        (13,),
    ),
    # https://github.com/microsoft/onnxconverter-common/issues/208, 240, 261; onnx/onnx 4480: a Cast behind its reader
    "Nodes in a graph must be topologically sorted": (
        """order (float[3] x) => (float[3] y) <float16 e = {16384}> { p = Pow(x_cast_0, e)  y = Cast<to = 1>(p)
        x_cast_0 = Cast<to = 10>(x) }""",
        {"p = Pow": "x_cast_0 = Cast<to = 10>(x)  p = Pow", "x_cast_0 = Cast<to = 10>(x) }": "}"},
        (11,),
    ),
    # https://github.com/pytorch/pytorch/issues/18281: torch.nn.LocalResponseNorm, whose numbers are all in float64
    "LRN type mismatch when exported to onnx": (
        """lrn (float[1, 3, 4, 4] x) => (float[1, 3, 4, 4] y) <double a = {0.5}, double k = {1}, double b = {0.75}> {
        q = Mul(x, x)  m = Mul(q, a)  s = Add(m, k)  p = Pow(s, b)  y = Div(x, p) }""",
        {"double a": "float a", "double k": "float k", "double b": "float b"},
        (9, 4),
    ),
}

# For each report of another node that contradicts its operator: as for the others.
OTHER_NODES: dict[str, tuple[str, dict[str, str], tuple[int, ...]]] = {
    # https://github.com/onnx/models/issues/156; apache/mxnet: BatchNormalization of opset 8 beside a PRelu
    "Unrecognized attribute: spatial for operator BatchNormalization": (
        """mxnet (float[1, 2, 3, 3] x) => (float[1, 2, 3, 3] y) <float[2] g = {1, 2}, float[2] b = {0, 1},
        float[2] m = {0, 0}, float[2] v = {1, 1}, float[2, 1, 1] s = {0.5, 2}> {
        c = BatchNormalization<spatial = 1>(x, g, b, m, v)  n = BatchNormalization<spatial = 0>(c, g, b, m, v)
        y = PRelu(n, s) }""",
        {"<spatial = 1>": "", "<spatial = 0>": ""},
        (9, 4),
    ),
    # https://github.com/microsoft/onnxruntime/issues/2045: ArcFace from MXNet, whose fully connected layers flatten
    "[ShapeInferenceError] First input does not have rank 2": (
        """arcface (float[N, 2, 1, 4] x) => (float[N, 1] y) <float[2] s = {0.25, -1}, float[1, 8] w =
        {1, 2, 3, 4, 5, 6, 7, 8}, float[1] b = {1}> { p = PRelu(x, s)  y = Gemm<transB = 1>(p, w, b) }""",
        {
            "float[2] s": "float[2, 1, 1] s",
            "y = Gemm<transB = 1>(p": "f = Flatten(p)  y = Gemm<transB = 1>(f",
        },
        (8, 4),
    ),
    # the same networks: onnx/models 156; ailia-ai/ailia-models 52
    "BatchNormalization ... Invalid input scale: NumDimensions() != 3": (
        """arcface (float[1, 2, 3, 3] x) => (float[1, 2, 3, 3] y) <float[2] g = {1, 2}, float[2] b = {0, 1},
        float[2] m = {0, 0}, float[2] v = {1, 1}, float[2, 1, 1] s = {0.5, 2}> {
        n = BatchNormalization<spatial = 0>(x, g, b, m, v)  y = PRelu(n, s) }""",
        {"<spatial = 0>": ""},
        (8, 4),
    ),
    # https://github.com/onnxsim/onnxsim/issues/62, onnx/models 55, onnx/onnxmltools 21, onnx/onnx 1021, 2198, and
    # microsoft/onnxruntime 9663: weights that are not inputs, in an IR version in which they have to be
    "s in initializer but not in graph input": (
        """old (float[1, 2, 3, 3] x, float[2, 2, 1, 1] k) => (float[1, 2, 3, 3] y) <float[2, 2, 1, 1] k = {1, 2, 3, 4},
        float[2, 1, 1] s = {0.25, -1}> { c = Conv(x, k)  y = PRelu(c, s) }""",
        {"x, float[2, 2, 1, 1] k)": "x)"},
        (8, 3),
    ),
    # https://github.com/pytorch/pytorch/pull/110078: torch.linalg.vector_norm, whose result is declared as float32
    "denom torch.float16, and Float in the graph": (
        """norm (float16[2, 4] x) => (float16[2, 4] y) <float16 low = {1}, float[2, 1] n> { n = ReduceL2<axes = [1]>(x)
        c = Clip(n, low)  y = Div(x, c) }""",
        {", float[2, 1] n": ""},
        (13,),
    ),
    # https://github.com/onnx/sklearn-onnx/issues/1102: an output in float64 that is declared as float32
    "Type (tensor(double)) of output arg (variable) of node (Co_Concat) does not match expected type": (
        """scaler (float[2, 3] x) => (float[2, 6] variable) { d = Cast<to = 11>(x)  s = Mul(d, d)
        variable = Concat<axis = 1>(d, s) }""",
        {"=> (float": "=> (double"},
        (15,),
    ),
}

NORM = """norm (float16[2, 8] x) => (float16[2, 8] y) <float16 two = {16384}, float16 e = {168}> { m = ReduceMean<axes
    = [-1]>(x)  d = Sub(x, m)  q = Pow(d, two)  v = ReduceMean<axes = [-1]>(q)  w = Add(v, e)  s = Sqrt(w)
    y = Div(d, s) }"""

# For each report or message of a runtime that lacks an operator, a type or an opset: the model, and how convert
# writes it.
WITHOUT: dict[str, tuple[str, tuple[int, ...], str]] = {
    # https://github.com/Wulingtian/yolov5_onnx2caffe/issues/25: the head of YOLOv5
    "ONNX node of type Pow is not supported": (
        """yolo (float[1, 3, 4, 4, 2] x) => (float[1, 3, 4, 4, 2] y) <float two = {2}, float[3, 1, 1, 1] anchors =
        {1, 2, 3}> { s = Sigmoid(x)  d = Mul(s, two)  p = Pow(d, two)  y = Mul(p, anchors) }""",
        (12, 7),
        "--pow expand",
    ),
    # https://github.com/opencv/opencv/issues/18179: generalised mean pooling, a cube and a cube root
    "Can't create layer of type Pow": (
        """gem (float[1, 3, 4, 4] x) => (float[1, 3, 1, 1] y) <float low = {1e-6}, float[1] p = {3}, float one = {1}> {
        c = Clip(x, low)  q = Pow(c, p)  a = GlobalAveragePool(q)  r = Div(one, p)  y = Pow(a, r) }""",
        (11, 6),
        "--pow logarithms",
    ),
    # https://github.com/google-ai-edge/litert-samples/pull/170: a delegate without comparisons
    "PReLU -> GREATER + SELECT + MUL: GPU-rejected": (
        "upscale (float[1, 3, 4, 4] x) => (float[1, 3, 4, 4] y) <float[3, 1, 1] s = {0.25, -1, 2}> { y = PRelu(x, s) }",
        (17,),
        "--prelu relu",
    ),
    # https://github.com/rockchip-linux/rknn-toolkit2/issues/300; rknn-toolkit 116; onnx2pytorch 54; opencv 18876:
    # torch.nn.functional.normalize, as torch exports it
    "Unsupport CPU op: ReduceL2 in this librknnrt.so": (
        """normalize (float[2, 4] x) => (float[2, 4] y) <float low = {1e-12}> { n = ReduceL2<axes = [1]>(x)
        c = Clip(n, low)  s = Shape(x)  e = Expand(c, s)  y = Div(x, e) }""",
        (13,),
        "--expand ReduceL2",
    ),
    # https://github.com/alibaba/MNN/issues/9, 1059; mortont/axon_onnx 57; OpenPPL/ppl.nn 18; insightface 2044
    "NOT_SUPPORTED_OP: [ PRelu ]": (
        "face (float[1, 3, 4, 4] x) => (float[1, 3, 4, 4] y) <float[3, 1, 1] s = {0.25, -1, 2}> { y = PRelu(x, s) }",
        (9, 4),
        "--prelu expand",
    ),
    # https://github.com/alibaba/MNN/pull/4119, Tencent/ncnn 6056, apache/tvm 18596, 18598, 18606: slopes along another
    # dim than the channels
    "TVM crashes when the size of the shape of slope tensor for PRelu operator is larger than 1": (
        "rows (float[1, 3, 2, 4] x) => (float[1, 3, 2, 4] y) <float[1, 1, 2, 1] s = {0.25, -1}> { y = PRelu(x, s) }",
        (16,),
        "--target basic",
    ),
    # https://github.com/NVIDIA/TensorRT/issues/210, 1988, 2657, 2875, 3657; ItayElam/SegmentAnything-TensorRT 2
    "No importer registered for op: LayerNormalization. Attempting to import as plugin": (
        """sam (float[1, 4, 8] x) => (float[1, 4, 8] y) <float[8] g = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] b =
        {0, 0, 0, 0, 1, 1, 1, 1}> { y = LayerNormalization<axis = -1, epsilon = 1e-6>(x, g, b) }""",
        (17,),
        "--expand LayerNormalization",
    ),
    "elementwise inputs must not be Int32": (
        "whole (int32[4] x) => (int32[4] y) <int32 e = {3}> { y = Pow(x, e) }",
        (15,),
        "--target tensorrt",
    ),
    "Detected layernorm nodes in FP16": (NORM, (13,), "--fuse norms --opset 17"),
    "a vector in float16 whose norm overflows": (NORM, (13,), "--float32 norms"),
}
for how, versions, rest in (
    ("--opset 9", (6, 3), "float[3] s = {0.25, -1, 2}> { y = PRelu(x, s)"),
    ("--opset 12", (13,), "int64[1] i = {0}> { p = Pow(x, e)  q = Unsqueeze(p, i)  y = Squeeze(q, i)"),
    ("--opset 13", (18,), "float u> { a, b = Split<num_outputs = 2>(x)  y = Concat<axis = 0>(b, a)"),
    ("--opset 18", (22, 10), "float u> { p = Pow(x, e)  y = LpNormalization(p)"),
    ("--opset 21", (23, 11), "float u> { p = Pow(x, e)  y = Identity(p)"),
    ("--target onnxruntime", (15,), "uint8 i = {3}> { y = Pow(x, i)"),
    ("--expand Softplus", (13,), "float u> { y = Softplus(x)"),
    ("--expand Gelu", (20, 9), "float u> { y = Gelu(x)"),
):
    net = f"net (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y) <float e = {{2}}, {rest} }}"
    WITHOUT[how] = net, versions, how


# The reporter knows what the model is to become: the model, the arguments of `halfulp convert`, the replacements in
# it that make the right one, and the versions of both.
CONVERSIONS: dict[str, tuple[str, str, dict[str, str], tuple[int, ...], tuple[int, ...]]] = {
    # https://github.com/onnx/onnx-coreml/issues/359; pytorch/pytorch 18475: runtimes without Pow
    "POW function not supported": (
        "square (float[2, 3] x) => (float[2, 3] y) <float e = {2}> { y = Pow(x, e) }",
        "--pow expand",
        {"y = Pow(x, e)": "y = Mul(x, x)"},
        (10,),
        (10,),
    ),
    # https://github.com/tensorflow/tfjs-converter/pull/403; Samsung/ONE 10359: Keras's and torch's forms of PRelu
    "fusing op generated by tf.keras for prelu op": (
        """keras (float[2, 3] x) => (float[2, 3] y) <float[3] alpha = {-0.25, 1, -2}> { r = Relu(x)  n = Neg(x)
        q = Relu(n)  m = Mul(alpha, q)  y = Add(r, m) }""",
        "--prelu fold",
        {
            "{-0.25, 1, -2}": "{0.25, -1, 2}",
            "r = Relu(x)  n = Neg(x)\n        q = Relu(n)  m = Mul(alpha, q)  y = Add(r, m)": "y = PRelu(x, alpha)",
        },
        (13,),
        (13,),
    ),
    # https://github.com/NVIDIA/TensorRT/issues/3841; microsoft/onnxconverter-common 85: an older opset, a newer IR
    "Unsupported model IR version: 9, max supported IR version: 8": (
        "tts (float[2, 3] x) => (float[2, 3] y) <float e = {2.5}> { a = Abs(x)  y = Pow(a, e) }",
        "--opset 15",
        {},
        (19, 9),
        (15, 8),
    ),
    # https://github.com/onnx/onnx/issues/2673, 5290, 5988: versions that only take more types, or negative indices
    "No Adapter For Conv": (
        """old (float[1, 3, 5, 7] x) => (float[1, 3, 5, 7] y) <float[4, 3, 1, 1] w, int64[3] i = {0, 2, 1},
        float[4, 1, 1] s = {0.25, -1, 2, 0.5}> {
        c = Conv(x, w)  p = PRelu(c, s)  g = Gather<axis = 1>(p, i)  y = Identity(g) }""",
        "--opset 11",
        {},
        (16,),
        (11, 6),
    ),
    # https://github.com/PINTO0309/onnx2tf/pull/868; tsingmicro-toolchain/OnnxSlim 6: Gelu of opset 20 in an older one
    "No Op registered for Gelu with domain_version of 17": (
        """gelu (float[2, 3] x) => (float[2, 3] y) <float half = {0.5}, float one = {1}, float root = {1.41421354}> {
        y = Gelu(x) }""",
        "--opset 17",
        {
            "y = Gelu(x)": "d = Div(x, root)  e = Erf(d)  o = Sum(one, e)  p = Mul(half, x)  y = Mul(p, o)",
        },
        (17,),
        (17,),
    ),
    # https://github.com/microsoft/onnxruntime/pull/25765, issue 27873: kernels without bfloat16 for what a Gelu becomes
    "Could not find an implementation for Sqrt(13) node": (
        """gemma (float[2, 4] x) => (float[2, 4] y) { h = Cast<to = 16>(x)  g = Gelu<approximate = "tanh">(h)
        y = Cast<to = 1>(g) }""",
        "--float32 all",
        {
            "h = Cast<to = 16>(x)  g = Gelu": "g = Gelu",
            "(h)\n        y = Cast<to = 1>(g)": "(x)  y = Identity(g)",
        },
        (20, 9),
        (20, 9),
    ),
    # https://github.com/PaddlePaddle/X2Paddle/issues/298, pull 418, alibaba/MNN 408, microsoft/onnxruntime pull 17543,
    # qualcomm/aimet 871, 872, 1728, pytorch/glow 4741: torch's exporter computes the slope, and importers want a weight
    "TypeError: object of type 'NoneType' has no len()": (
        """torch (float[N, 3, 4, 5] x) => (float[N, 3, 4, 5] y) <float[3] s = {0.25, -1, 2}> {
        u = Unsqueeze<axes = [1, 2]>(s)  y = PRelu(x, u) }""",
        "--prelu fold",
        {
            "u = Unsqueeze<axes = [1, 2]>(s)  y = PRelu(x, u)": "y = PRelu(x, s)",
            "float[3] s": "float[3, 1, 1] s",
        },
        (11, 6),
        (11, 6),
    ),
    # https://github.com/tracel-ai/burn-onnx/issues/305; microsoft/onnxruntime 4033, 4507: weights as inputs, as IR
    # version 3 has them
    "Cannot convert Dynamic argument to Static (only Constant can be converted)": (
        """arcface (float[1, 3, 4, 4] x, float[3, 1, 1] s) => (float[1, 3, 4, 4] y) <float[3, 1, 1] s = {0.25, -1, 2}> {
        y = PRelu(x, s) }""",
        "--opset 16",
        {"x, float[3, 1, 1] s)": "x)"},
        (8, 3),
        (16, 8),
    ),
    # https://github.com/openvinotoolkit/openvino/issues/33371, 35958, pull 36020: as many channels as columns
    "wrong results produced by PRelu operator compared with onnxruntime": (
        "fuzz (float[1, 3, 2, 3] x) => (float[1, 3, 2, 3] y) <float[3] s = {0.1, 0.5, 2}> { y = PRelu(x, s) }",
        "--target openvino",
        {"float[3] s": "float[1, 1, 1, 3] s"},
        (16, 8),
        (16, 8),
    ),
    # https://github.com/microsoft/onnxruntime/issues/10936, 11836, 23116: a fusion that takes no float64
    "FuseReluClip::Apply Unexpected data type for Clip 'min' input of 11": (
        "clip (double[4] x) => (double[4] y) <double lo = {-1}, double hi = {1}> { r = Relu(x)  y = Clip(r, lo, hi) }",
        "--expand Clip",
        {
            "y = Clip(r, lo, hi)": "a = Less(r, lo)  b = Where(a, lo, r)  c = Less(hi, b)  y = Where(c, hi, b)",
        },
        (14,),
        (14,),
    ),
    # https://github.com/Tencent/ncnn/issues/1609; gmalivenko/onnx2keras 167; alibaba/MNN 794
    "Clip 0=-3.402823e+38 1=3.402823e+38": (
        "relu6 (float[4] x) => (float[4] y) <float lo = {0}, float hi = {6}> { y = Clip(x, lo, hi) }",
        "--opset 10",
        {"<float lo = {0}, float hi = {6}>": "", "Clip(x, lo, hi)": "Clip<min = 0.0, max = 6.0>(x)"},
        (11,),
        (10, 5),
    ),
    # https://github.com/onnx/onnx/issues/5843: a norm that the older opset has in another form
    "Create down conversion for GroupNormalization-21": (
        """norm (float[2, 4, 3] x) => (float[2, 4, 3] y) <float[4] w = {1, 2, 3, 4}, float e = {2}> {
        a = GroupNormalization<num_groups = 2>(x, w, w)  y = Pow(a, e) }""",
        "--opset 20",
        {},
        (21, 10),
        (21, 10),
    ),
}


# For each report of a float16 network that answers zeros or NaN without a Pow: the model, and how large its data is.
SUMS: dict[str, tuple[str, float]] = {
    # https://github.com/ROCm/AMDMIGraphX/issues/850: Inception
    "fp16 overflow: they are caused by the LRN operator": (
        """lrn (float16[1, 4, 3, 3] x) => (float16[1, 4, 3, 3] y) { l = LRN<size = 5, bias = 1.0>(x)
        y = Relu(l) }""",
        1e3,
    ),
    # https://github.com/microsoft/onnxruntime/issues/10079; NVIDIA/TensorRT 2691; MIC-DKFZ/nnUNet 3026
    "InstanceNorm generate totally wrong result on fp16": (
        """style (float16[1, 2, 8, 8] x) => (float16[1, 2, 8, 8] y) <float16[2] w = {15360, 15360}> {
        n = InstanceNormalization(x, w, w)  y = Relu(n) }""",
        1e3,
    ),
    # https://github.com/tinygrad/tinygrad/issues/11705
    "The problem is with the ReduceSum op overflowing fp16 to inf": (
        """embed (float16[1, 600] x) => (float16[1, 1] y) <int64[1] axes = {1}> { s = ReduceSum(x, axes)
        l = Log(s)  y = Relu(l) }""",
        400,
    ),
}


_FACE = """<ir_version: 8, opset_import: ["": 13]> face (float[1, 2, 3, 3] x) => (float[1, 2, 3, 3] y)
    <float[2, 1, 1] s = {0.5, 2}> { y = PRelu(x, s) }"""

# For each report of a file that no tool reads: the file's name, its bytes, and a part of the way out.
FILES: dict[str, tuple[str, bytes, str]] = {
    # https://github.com/commaai/commavq/issues/12; onnx/onnx 6446; onnx/models 569; microsoft/onnxruntime-genai 684
    "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : ... Protobuf parsing failed": (
        "decoder.onnx",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        "git lfs pull",
    ),
    # https://github.com/hacksider/Deep-Live-Cam/issues/438; levihsu/OOTDiffusion 118: half a download
    "Unable to parse proto from file": (
        "inswapper.onnx",
        parser.parse_model(_FACE).SerializeToString()[:-20],
        "download or export it again",
    ),
    # https://github.com/microsoft/onnxruntime/issues/19739; wangzhaode/llm-export 57; yalue/onnxruntime_go 67
    'Failed to load external data file "./model.onnx_data"': (
        "model.onnx",
        parser.parse_model(
            _FACE.replace("= {0.5, 2}", '= ["location": "model.onnx_data"]')
        ).SerializeToString(),
        "a file of this name beside the model",
    ),
    # https://github.com/microsoft/onnxruntime/issues/7553, 8044, 15756: ONNX Runtime's own format
    "ONNX format model is not supported in this build": (
        "model.onnx",
        b"\x18\0\0\0ORTM" + bytes(64),
        "the .onnx file that it was made from",
    ),
    # https://github.com/alibaba/TinyNeuralNetwork/issues/267; tensorflow/tensorflow 21041, 25579, 39749, 65976
    "Given shapes, [1,128,128,60] and [1,1,40], are not broadcastable. Node number 58 (PRELU) failed to prepare": (
        "model.tflite",
        b"\x1c\0\0\0TFL3" + bytes(64),
        "python -m tf2onnx.convert --tflite",
    ),
    # https://github.com/PINTO0309/MobileNetV2-PoseEstimation/issues/7; openvinotoolkit/openvino 1941, 11417
    "The support of IR v5 has been removed from the product": (
        "pose.xml",
        b'<net name="pose" version="5"><layers/><edges/></net>',
        "convert the original model again, by ovc",
    ),
}


def made(text: str, versions: tuple[int, ...]) -> ModelProto:
    """Return a model; weights without values are made up."""
    opset, ir_version = (*versions, 8)[:2]
    runtimes = ', "com.microsoft": 1' if "com.microsoft" in text else ""
    model = parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}{runtimes}]> {text}')
    rng = np.random.default_rng(0)
    for info in [*model.graph.value_info]:
        if info.name in ("w", "v"):
            weights = rng.normal(size=[dim.dim_value for dim in info.type.tensor_type.shape.dim])
            kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            model.graph.initializer.append(onnx.numpy_helper.from_array(weights.astype(kind), info.name))
            model.graph.value_info.remove(info)
    return model


def inputs_of(model: ModelProto) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    held = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in held]
    sizes = {info.name: [dim.dim_value or 4 for dim in info.type.tensor_type.shape.dim] for info in infos}
    kinds = {
        info.name: onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type) for info in infos
    }
    return {name: np.asarray(rng.normal(size=sizes[name]) * 4).astype(kinds[name]) for name in sizes}


def run_what_is_printed(model: ModelProto) -> ModelProto:
    """Audit a model, run the commands that it prints, and return what they have written last."""
    onnx.save(model, "m.onnx")
    file = "m.onnx"
    for _ in range(3):
        printed = CliRunner().invoke(app, ["audit", file, "--target", "onnxruntime"])
        text = re.sub(r"\n {4,}", " ", printed.output)
        commands = dict.fromkeys(re.findall(r"^  halfulp ((?:repair|convert) .+)", printed.output, re.M))
        if not commands and "halfulp repair writes it in order" in text:
            commands = {f"repair {file} repaired.onnx": None}
        if not commands:
            break
        for command in commands:
            result = CliRunner().invoke(app, shlex.split(command))
            assert result.exit_code == 0, result.output
            file = shlex.split(command)[2]
    assert file != "m.onnx", printed.output
    return onnx.load(file)


def assert_runs_as(model: ModelProto, right: ModelProto, tolerance: float = 0) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx.checker.check_model(model, full_check=True)
    inputs = inputs_of(right)
    found, expected = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, inputs
        )
        for each in (model, right)
    )
    for one, other in zip(found, expected, strict=True):
        if tolerance:
            np.testing.assert_allclose(one, other, rtol=tolerance)
        else:
            assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())


def right_of(text: str, replaced: dict[str, str]) -> str:
    for before, after in replaced.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("report", SLOPES | POWERS)
def test_a_slope_or_a_power(report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text, replaced, versions = (SLOPES | POWERS)[report]
    assert hu.repair(made(text, versions)).changes
    repaired = run_what_is_printed(made(text, versions))
    assert_runs_as(repaired, made(right_of(text, replaced), versions) if replaced else repaired)


@pytest.mark.parametrize("report", OTHER_NODES)
def test_other_nodes_that_contradict_their_operators(
    report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, replaced, versions = OTHER_NODES[report]
    found = hu.repair(made(text, versions))
    assert found.valid
    assert found.changes
    right = made(right_of(text, replaced), versions)
    assert_runs_as(found.model, right)
    if report.startswith("Unrecognized attribute"):
        with pytest.raises(hu.HalfulpError, match="halfulp repair"):
            hu.audit(made(text, versions))
    elif "BatchNormalization" not in report:  # such models are valid
        assert_runs_as(run_what_is_printed(made(text, versions)), right)


# https://github.com/opencv/opencv/issues/18179, as torch exports it: the exponent 1 / p is computed of a constant
def test_a_computed_exponent_becomes_a_constant_of_an_ir() -> None:
    pytest.importorskip("openvino")
    text = """gem (float[1, 3, 4, 4] x) => (float[1, 3, 1, 1] y) <float low = {1e-6}, float[1] p = {3}, float one = {1}>
        { c = Clip(x, low)  q = Pow(c, p)  a = GlobalAveragePool(q)  r = Reciprocal(p)  e = Mul(r, one)
        y = Pow(a, e) }"""
    found = hu.convert(made(text, (13,)), to="openvino", verify=True)
    assert found.verification is not None
    assert found.verification.same


# https://github.com/ailia-ai/ailia-models/issues/1455; pytorch/pytorch 190338: values in float32, and a norm's weights
# in float16
def test_the_weights_of_a_norm_in_another_type() -> None:
    text = """whisper (float[2, 2] x) => (float[2, 2] y) <float16[2] s = {15360, 16384}, float16[2] b = {0, 15360},
        float e = {2}> { p = Pow(x, e)  y = LayerNormalization(p, s, b) }"""
    found = hu.repair(made(text, (17,)))
    assert [change.differs for change in found.changes] == [None, None]
    replaced = {"float16[2]": "float[2]", "{15360, 16384}": "{1, 2}", "{0, 15360}": "{0, 1}"}
    assert_runs_as(found.model, made(right_of(text, replaced), (17,)))


# https://github.com/microsoft/onnxruntime/issues/21935; megvii-research/TLC 3; anthonymlortiz/lcn 4: NaN for
# nearly equal numbers, of the root of a difference of squares
@pytest.mark.parametrize("operator", ["LayerNormalization", "MeanVarianceNormalization"])
def test_a_norm_of_nearly_equal_numbers(operator: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    axes, more = ("axis = -1", ", w") if operator == "LayerNormalization" else ("axes = [1]", "")
    text = f"norm (float[2, 256] x) => (float[2, 256] y) <float[256] w> {{ y = {operator}<{axes}>(x{more}) }}"
    model = made(text if more else text.replace(" <float[256] w>", ""), (17,))
    plain = hu.convert(model, expand=operator).model
    assert "Sub" in [node.op_type for node in plain.graph.node]
    deviations = np.random.default_rng(0).integers(-8, 9, (2, 256)) / 256
    found = onnxruntime.InferenceSession(plain.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {"x": (1234 + deviations).astype(np.float32)}
    )[0]
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0]) if more else 1
    centred = deviations - deviations.mean(axis=1, keepdims=True)
    right = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + (1e-5 if more else 0)) * weights
    np.testing.assert_allclose(found, right, atol=0.05)


@pytest.mark.parametrize("report", SUMS)
def test_a_sum_in_float16(report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    text, size = SUMS[report]
    model = made(text, (13,))
    onnx.save(model, "m.onnx")
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    np.save("x.npy", (np.random.default_rng(0).random(shape) * size).astype(np.float16))
    asked = ["audit", "m.onnx", "-i", "x=x.npy"]
    printed = CliRunner().invoke(app, asked)
    assert printed.exit_code == 1
    (command,) = re.findall(r"^  halfulp (convert .+)", printed.output, re.M)
    assert CliRunner().invoke(app, shlex.split(command)).exit_code == 0
    assert CliRunner().invoke(app, [*asked[:1], "converted.onnx", *asked[2:]]).exit_code == 0


# For each way in which a float16 network has its last norm: the norm. The values that it reads leave float16.
LAST_NORMS = {
    # https://github.com/huggingface/transformers/issues/5651, 9295; openvinotoolkit/openvino pull 36504; TensorRT 2479;
    # microsoft/onnxruntime 15752: T5
    "T5 fp16 overflow in forward": """h = Add(x, o)  q = Pow(h, two)  m = ReduceMean<axes = [-1]>(q)  e = Add(m, small)
        s = Sqrt(e)  y = Div(h, s)""",
    # https://github.com/microsoft/onnxruntime/issues/26732: Gemma, whose norms are exported in float32
    "fp16 Gemma 3 models produce invalid outputs": """h = Add(x, o)  c = Cast<to = 1>(h)  q = Mul(c, c)
        m = ReduceMean<axes = [-1]>(q)  e = Add(m, tiny)  s = Sqrt(e)  d = Div(c, s)  y = Cast<to = 10>(d)""",
    "a norm that is an operator": "h = Add(x, o)  y = LayerNormalization(h, g)",
}


@pytest.mark.parametrize("report", LAST_NORMS)
def test_values_that_float16_does_not_hold(
    report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    text = f"""net (float16[2, 64] x) => (float16[2, 64] y) <float16[64, 64] w, float16[64, 64] v, float16 two =
        {{16384}}, float16 small = {{168}}, float tiny = {{1e-6}}, float16[64] g = {{{", ".join(["15360"] * 64)}}}> {{
        a = MatMul(x, w)  r = Relu(a)  o = MatMul(r, v)  {LAST_NORMS[report]} }}"""
    model = made(text, (17,))
    onnx.save(model, "m.onnx")
    x = {"x": (np.random.default_rng(2).normal(size=(2, 64)) * 1e3).astype(np.float16)}
    np.savez("x.npz", **x)
    for _ in range(3):
        printed = CliRunner().invoke(app, ["audit", "m.onnx", "-i", "x.npz"]).output
        commands = set(re.findall(r"^  halfulp (convert .+--(?:float32|expand) .+)", printed, re.M))
        assert len(commands) == ("! in float16" in printed), printed
        for command in commands:
            assert "#2 (MatMul)" in printed
            assert CliRunner().invoke(app, shlex.split(command)).exit_code == 0
            Path("converted.onnx").rename("m.onnx")
    with np.errstate(all="ignore"):
        (wrong,), (right,) = (ReferenceEvaluator(each).run(None, x) for each in (model, onnx.load("m.onnx")))
    assert not np.isfinite(wrong).all()
    assert np.isfinite(right).all()


# https://github.com/enpasos/jax2onnx/issues/52: which shape is meant, nothing says
def test_shapes_that_do_not_go_together_are_named() -> None:
    model = made("sod (float[201, 6] a, float[6, 201] b) => (float[201, 6] y) { y = Mul(a, b) }", (18,))
    (finding,) = hu.audit(model, targets=()).findings
    assert "Incompatible dimensions of float32[201, 6] and float32[6, 201]" in finding.text
    assert finding.to_do == "correct the model"


# the same reports; sbryngelson/ANEForge 263: norms that a module writes out, in both orders and with other constants
@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize(
    "square", ["q = Pow(x, two)  a = ReduceMean<axes = [-1]>(q)  mm = Pow(m, too)", "q = Mul(x, x)"]
)
def test_a_variance_that_is_a_difference_of_squares(square: str, opset: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if "Mul" in square:
        square += "  a = ReduceMean<axes = [-1]>(q)  mm = Mul(m, m)"
    text = f"""tlc (float[4, 8] x) => (float[4, 8] y) <float two = {{2}}, float[1] too = {{2}}, float e = {{1e-5}}> {{
        m = ReduceMean<axes = [-1]>(x)  {square}  v = Sub(a, mm)  w = Add(v, e)  s = Sqrt(w)  d = Sub(x, m)
        n = Div(d, s)  u = Sub(x, n)  t = Sub(u, x)  y = Neg(t) }}"""
    found = hu.convert(made(text, (opset,)), fuse="norms")
    about_variance = ["E[x^2] - E[x]^2" in change.what for change in found.changes]
    assert about_variance == ([True, False] if opset == 17 else [True])
    feed = {"x": np.full((4, 8), 1234.1, np.float32)}
    session = onnxruntime.InferenceSession(
        found.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (result,) = session.run(None, feed)
    np.testing.assert_allclose(result, 0, atol=0.1)


# https://github.com/microsoft/onnxruntime/issues/17206: what the model is meant to be, nothing says
def test_a_model_that_is_refused_for_another_reason_is_not_called_sound() -> None:
    text = """both (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <float[4] scales = {1, 1, 2, 2}, int64[4] sizes =
        {1, 1, 4, 4}> { y = Resize(x, , scales, sizes) }"""
    (left,) = hu.repair(made(text, (13,))).left
    assert left.valid
    assert "Either `sizes` or `scales` must be provided" in left.why


def test_an_operator_that_came_later_is_named() -> None:
    model = made("gelu (float[2, 3] x) => (float[2, 3] y) { y = Gelu(x) }", (17,))
    (left,) = hu.repair(model).left
    assert left.valid
    assert "--opset 20 makes it a model of opset 20" in left.why
    assert f"notice: {left.why}" in " ".join(str(hu.audit(model, targets=())).split())
    assert hu.convert(model, opset=20, verify=True).verification.same


# https://github.com/onnx/onnx-tensorflow/issues/240
def test_an_operator_that_onnx_never_had_is_named() -> None:
    (left,) = hu.repair(made("tf (float[2, 3] x) => (float[2, 3] y) { y = Rsqrt(x) }", (9,))).left
    assert left.valid
    assert "ONNX has no Rsqrt in any opset" in left.why


@pytest.mark.parametrize("report", CONVERSIONS)
def test_a_conversion(report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text, arguments, replaced, before, after = CONVERSIONS[report]
    onnx.save(made(text, before), "m.onnx")
    result = CliRunner().invoke(app, ["convert", "m.onnx", "new.onnx", *arguments.split()])
    assert result.exit_code == 0, result.output
    new = onnx.load("new.onnx")
    right = made(right_of(text, replaced), after)
    assert new.ir_version <= right.ir_version
    assert {info.name for info in new.graph.input} == {info.name for info in right.graph.input}
    if replaced:
        found, expected = (
            [node.op_type for node in model.graph.node if node.op_type != "Constant"]
            for model in (new, right)
        )
        assert found == expected
    # ONNX Runtime's body of this norm has a difference of squares.
    assert_runs_as(new, right, 1e-4 if "GroupNormalization" in report else 0)


# https://github.com/numpy/numpy/issues/8917 (10**c for c from -5 on), 16166 (2 and 3 to negative powers)
@pytest.mark.parametrize(("base", "exponents"), [(10.0, range(-5, 5)), (2.0, [-1]), (2.0, [-3])])
def test_integers_to_negative_powers(base: float, exponents: Any) -> None:
    found = hu.pow(base, np.array(exponents))
    np.testing.assert_array_equal(found, [base**exponent for exponent in exponents])
    np.testing.assert_array_equal(hu.float_power(int(base), np.array(exponents)), found)
    with pytest.raises(hu.HalfulpError, match="negative or not an integer"):
        hu.pow(np.array(int(base)), np.array(exponents), integers="raise")


# https://github.com/microsoft/onnxscript/issues/2213: x ** 0.5 of integers; torch computes in float, ONNX truncates
def test_a_node_that_is_valid_and_not_meant(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(made("torch (int64 x) => (int64 y) <float e = {0.5}> { y = Pow(x, e) }", (18,)), path)
    result = CliRunner().invoke(app, ["audit", str(path), "--target", "onnxruntime"])
    assert result.exit_code == 0
    assert "cast the base to a float" in " ".join(result.output.split())


@pytest.mark.parametrize("report", WITHOUT)
def test_a_runtime_without_the_operator(report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    text, versions, how = WITHOUT[report]
    model = made(text, versions)
    onnx.save(model, "m.onnx")
    result = CliRunner().invoke(app, ["convert", "m.onnx", "converted.onnx", *how.split()])
    assert result.exit_code == 0, result.output
    converted = onnx.load("converted.onnx")
    operators = {node.op_type for node in converted.graph.node}
    if "--opset" in how:
        assert converted.opset_import[0].version == int(how.split()[-1])
    elif any(word in how for word in ("expand", "logarithms", "relu", "basic")):
        assert operators.isdisjoint(("Pow", "PRelu", how.split()[-1]))
    assert ("LayerNormalization" in operators) == ("--fuse" in how)
    inputs = inputs_of(model)
    expected = ReferenceEvaluator(model).run(None, inputs)
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    tolerance = 3e-3 if text == NORM else 1e-5
    for one, other in zip(session.run(None, inputs), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


# The headings of the pages of messages whose command is not `convert`: SLOPES, POWERS, OTHER_NODES, SUMS and FILES try
# the first ones. The others need programs, versions or frameworks that no test installs.
TRIED = {
    *("PRelu, one slope for each channel", "Types of operands", "Attributes and forms of another opset"),
    *("Declarations and order", "Overflow in float16", "Questions about one model"),
}
NOT_TRIED = {
    "Operators of ONNX Runtime's optimizer",
    "Other commands",
    "The exporter refuses a module",
    "In Python",
}


def test_each_row_of_the_pages_of_messages_has_a_command_that_is_tried() -> None:
    tried = {how for _, _, how in WITHOUT.values()} | {entry[1] for entry in CONVERSIONS.values()}
    pages = [(DOCS / f"troubleshooting{part}.md").read_text() for part in ("", "-outputs")]
    for section in re.split(r"^## ", "\n".join(pages), flags=re.MULTILINE)[1:]:
        heading, *lines = section.splitlines()
        options = re.findall(r"`halfulp convert in.onnx out.onnx (.+)`", heading)
        assert options or heading.partition(":")[0] in TRIED | NOT_TRIED
        for row in (line for line in lines if options and line.startswith("- ")):
            # A heading's option in capitals, such as `--opset N`, is what each row says.
            chosen = re.findall(r"`(--[^`]+)`", row) if options[0].split()[-1].isupper() else options
            assert chosen
            assert {*chosen} <= tried, row


def test_a_model_gets_the_opset_of_its_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "rms (float[2, 8] x) => (float[2, 1] y) <float e = {2}> { p = Pow(x, e)  y = ReduceMean<axes = [-1]>(p) }"
    onnx.save(made(text, (18,)), "in.onnx")
    with pytest.raises(hu.HalfulpError, match="written as in opset 17"):
        hu.audit("in.onnx")
    (program,) = re.findall(
        r'`python -c "(import onnx.+)"`', (DOCS / "troubleshooting-outputs.md").read_text()
    )
    exec(program)
    assert_runs_as(onnx.load("out.onnx"), made(text, (17,)))


def test_messages_of_numpy() -> None:
    whole = np.array([3])
    for message, refused, result, expected in (
        ("Integers to negative integer powers", lambda: whole**-1, hu.float_power(4, -1), 0.25),
        ("Cannot cast ufunc 'power' output", lambda: np.power(whole, 0.5, out=whole), hu.pow(whole, 0.5), 1),
        ("overflow encountered in power", lambda: np.array([10.0]) ** 400, hu.pow(10.0, 400), np.inf),
        ("invalid value encountered in power", lambda: np.array([-8.0]) ** 0.3, hu.pow(-8.0, 0.3), np.nan),
    ):
        assert message in (DOCS / "troubleshooting-outputs.md").read_text()
        with np.errstate(all="raise"), pytest.raises((ValueError, TypeError, ArithmeticError), match=message):
            refused()
        np.testing.assert_array_equal(result, expected)


def test_expressions_for_a_module_that_is_not_exported() -> None:
    torch = pytest.importorskip("torch")
    x, w = torch.linspace(-3, 3, 30).reshape(2, 3, 5), torch.tensor([0.25, -1, 2])
    assert_close, functional = torch.testing.assert_close, torch.nn.functional
    assert_close(torch.relu(x) - w.view(-1, 1) * torch.relu(-x), torch.prelu(x, w))
    assert_close(1 - torch.erf(x), torch.erfc(x), rtol=0, atol=1e-6)
    assert_close(0.5 * x * (1 + torch.erf(x / 2**0.5)), functional.gelu(x))
    assert_close(1 / x.square().sqrt(), x.square().rsqrt())
    assert_close(torch.pow(torch.tensor(2.0), x), 2**x)
    half = x.to(torch.bfloat16)
    assert functional.prelu(half, w.to(half.dtype)).dtype == half.dtype


@pytest.mark.parametrize("verb", ["audit", "run", "convert --opset 13", "repair"])
@pytest.mark.parametrize("report", FILES)
def test_a_file_that_no_tool_reads(
    report: str, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, data, way_out = FILES[report]
    Path(name).write_bytes(data)
    verb, *options = verb.split()
    outputs = ["new.onnx"] if verb in ("convert", "repair") else []
    result = CliRunner().invoke(app, [verb, name, *outputs, *options])
    assert result.exit_code == 2
    if verb in ("audit", "run") or not name.endswith(".xml"):
        assert way_out in result.stderr
