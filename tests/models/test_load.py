"""What a model may come as, at each door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest

import halfulp as hu
from halfulp.models import load


@pytest.mark.parametrize("door", [load, hu.run, hu.audit, hu.convert])
@pytest.mark.parametrize("source", [3, None, ["net.onnx"], bytearray(b"<net"), onnx.GraphProto()])
def test_what_is_no_model(door: Callable[[Any], Any], source: object) -> None:
    with pytest.raises(hu.HalfulpError) as caught:
        door(source)
    assert str(caught.value) == (
        f"a model must be a path, the bytes of a file or an onnx.ModelProto\n  got: {type(source).__name__}"
    )
