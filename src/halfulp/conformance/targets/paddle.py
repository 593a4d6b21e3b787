"""PaddlePaddle: ``paddle.pow``, eagerly on the CPU."""

from typing import Any

import paddle

paddle.set_device("cpu")


def pow(x: Any, y: Any) -> Any:
    return paddle.pow(paddle.to_tensor(x), paddle.to_tensor(y)).numpy()
