"""MNN: ``MNN.expr.pow`` of constants."""

from typing import Any

import MNN.expr
import numpy as np


def pow(x: Any, y: Any) -> Any:
    x, y = np.broadcast_arrays(x, y)
    if not x.size:
        raise NotImplementedError("an empty array has no value to read")
    result = MNN.expr.pow(constant(x.ravel()), constant(y.ravel())).read()
    return np.asarray(result, x.dtype).reshape(x.shape)


def constant(array: Any) -> Any:
    kind = MNN.expr.float if array.dtype == np.float32 else MNN.expr.int
    return MNN.expr.const(array.tolist(), list(array.shape), MNN.expr.NCHW, kind)
