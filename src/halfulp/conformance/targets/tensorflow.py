"""TensorFlow: ``tf.pow``, eagerly on the CPU. It wants operands of one type."""

import os
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

VERSIONS = {"tensorflow": tf.__version__}


def set_threads(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.pow(tf.ones(1), 1.0)


def pow(x: Any, y: Any) -> Any:
    return tf.pow(x, y).numpy()
