"""TensorFlow: ``tf.pow`` of operands of one type, and Keras's PReLU, eagerly on the CPU."""

import os
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

VERSIONS = {"tensorflow": tf.__version__}


def set_threads(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.pow(tf.ones(1), 1.0)


def pow(x: Any, y: Any) -> Any:
    return tf.pow(x, y).numpy()


def prelu(x: Any, slope: Any) -> Any:
    if x.dtype.kind in "iu" or not x.ndim or (slope.ndim == x.ndim and slope.shape[0] != 1):
        raise NotImplementedError("Keras has floating slopes, which all of a batch share")
    layer = tf.keras.layers.PReLU(dtype=x.dtype.name)
    layer.build(x.shape)
    layer.set_weights([np.broadcast_to(slope[0] if slope.ndim == x.ndim else slope, x.shape[1:])])
    return layer(x).numpy()
