"""The rows of OpenVINO: Power-1 and PReLU-1."""

from halfulp.specs import broadcast
from halfulp.specs.model import OpVersion, example, read
from halfulp.types import FLOATS, TYPES

_URL = "https://docs.openvino.ai/2025/documentation/openvino-ir-format/operation-sets/operation-specs/{}"


ROWS = (
    OpVersion(
        id="openvino.Power-1",
        type_variables={"T": tuple(TYPES)},
        broadcasting=broadcast.AUTO,
        **read("""
            Power performs element-wise power operation with two given tensors applying broadcasting rule
                specified in the auto_broadcast attribute.
            input a (T): A tensor of type T and arbitrary shape. Required.
            input b (T): A tensor of type T and arbitrary shape. Required.
            output o (T): The result of element-wise power operation. A tensor of type T with shape equal to
                broadcasted shape of two inputs.
            attribute auto_broadcast (string, numpy of none numpy explicit): specifies rules used for auto-broadcasting
                of input tensors.
            C1 o_i = a_i^b_i, element by element.
            C2 With auto_broadcast=numpy, NumPy's broadcasting rules apply. [shape]
            C3 With auto_broadcast=none, all input shapes match. [equal shapes]
            C4 a, b and o have the same type T, any numeric type. [type T]
            C5 The inputs are a and b, both required, in this order. [inputs]
            C6 The only attribute is auto_broadcast, a string, none or numpy; the default is numpy.
                [unknown attribute, attribute auto_broadcast]
            C7 o has type T and the broadcast shape of the two inputs. [output]
            other-auto-broadcast: Other values of auto_broadcast that OpenVINO knows.
                Choice: explicit is an older word for none; pdpd is refused.
            supported-types: Which types are numeric.
                Choice: Every type of the type table: floating types of 4 to 64 bits, and signed and unsigned
                integers of 4 to 64 bits.
            open rounding special-values nan integer-overflow integer-base environment
        """),
        examples=(
            example("no broadcasting", (256, 56), (256, 56), (256, 56), auto_broadcast="none"),
            example("numpy broadcasting", (8, 1, 6, 1), (7, 1, 5), (8, 7, 6, 5), auto_broadcast="numpy"),
        ),
        source=_URL.format("arithmetic/power-1.html"),
        kernel="pow",
    ),
    OpVersion(
        id="openvino.PReLU-1",
        type_variables={"T": FLOATS},
        broadcasting=broadcast.CHANNEL_OR_NUMPY,
        **read("""
            Parametric rectified linear unit element-wise activation function.
            input data (T): A tensor of type T and arbitrary shape. Required.
            input slope (T): A tensor of type T and rank greater or equal to 1. Tensor with negative slope values.
                Required.
            output output (T): The result of element-wise PReLU operation. A tensor of type T and the same shape
                as data input tensor.
            C1 The output is data where data >= 0, and slope * data where data < 0.
            C2 A slope of rank 1 whose dim equals the second dim of data, the channels, is applied per channel;
                any other slope is broadcast by NumPy's rules, and the output keeps data's shape. [shape]
            C3 data, slope and the output have the same floating type T. [type T]
            C4 The inputs are data and slope, both required, in this order. [inputs]
            C5 There are no attributes. [unknown attribute]
            C6 The output has data's type and shape. [output]
            C7 slope has rank 1 or more. [rank]
            slope-of-higher-rank: A slope of higher rank than data whose extra dims are 1.
                Choice: An error: the output would not have data's shape.
            supported-types: Which floating types are supported.
                Choice: Every floating type of the type table, 4 to 64 bits.
            open prelu-zero-and-nan prelu-rounding environment
        """),
        examples=(
            example("1D input tensor data", (128,), (1,), (128,)),
            example("2D input tensor data", (20, 128), (128,), (20, 128)),
            example("4D input tensor data", (1, 20, 128, 128), (20,), (1, 20, 128, 128)),
        ),
        source=_URL.format("activation/prelu-1.html"),
        kernel="prelu",
    ),
)
