"""torch.compile while halfulp's kernels are in torch: Inductor calls torch's operator for powers, on CUDA libdevice."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from contextlib import ExitStack
from importlib.abc import MetaPathFinder
from typing import Any

import numpy as np
import torch

from halfulp.errors import HalfulpWarning
from halfulp.integrations import triton

_LOWERING = "torch._inductor.lowering"
_POWERS = [getattr(torch.ops.aten.pow, name) for name in ("Tensor_Tensor", "Tensor_Scalar", "Scalar")]


class Inductor(MetaPathFinder):
    """Inductor's rules for powers, which are replaced when Inductor is loaded: to load it takes seconds."""

    def __init__(self) -> None:
        self._is_in = self._has_triton = False
        self._undo = ExitStack()
        self._programs: list[Any] = []  # those that existed when the kernels were taken out

    def put_in(self) -> None:
        self._is_in = True
        if list(map(id, _programs())) != list(map(id, self._programs)):
            sys.modules["torch._dynamo"].reset_code_caches()  # the new ones contain Inductor's powers
        if _LOWERING in sys.modules:
            self._replace(sys.modules[_LOWERING])
        else:
            sys.meta_path.insert(0, self)

    def take_out(self) -> None:
        self._is_in, self._programs = False, _programs()
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._undo.close()
        self._has_triton = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _LOWERING:
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def load_and_replace(module: Any) -> None:
            load(module)
            if self._is_in:
                self._replace(module)

        spec.loader.exec_module = load_and_replace
        return spec

    def _replace(self, lowering: Any) -> None:
        try:
            from torch._inductor import codecache

            key, rules, decompositions = codecache.torch_key, lowering.lowerings, lowering.decompositions
            before = {op: rules[op] for op in _POWERS}
            decomposed = {op: decompositions.pop(op) for op in _POWERS if op in decompositions}
            rules |= {op: _calling(lowering, op, self.open_triton) for op in _POWERS}
        except (AttributeError, ImportError, KeyError, TypeError):
            _warn(f"torch {torch.__version__}")
            return
        process = os.urandom(8)
        # Programs on the disk that were compiled without the kernels, or with a warning, are not taken.
        codecache.torch_key = lambda: key() + process
        self._undo.callback(setattr, codecache, "torch_key", key)
        self._undo.callback(decompositions.update, decomposed)
        self._undo.callback(rules.update, before)

    def open_triton(self) -> bool:
        """Let programs for CUDA link halfulp's powers from now on, and return whether they do."""
        if not self._has_triton:
            config, _triton = torch._inductor.config, torch.utils._triton
            if triton.BITCODE is None or torch.version.hip:
                return False
            triton.enable()
            threads, key = config.compile_threads, _triton.triton_hash_with_backend
            config.compile_threads = 1  # workers are other processes
            # It is part of a kernel's source, so that one from outside is not taken.
            _triton.triton_hash_with_backend = lambda: f"{key()} halfulp"
            self._undo.callback(setattr, _triton, "triton_hash_with_backend", key)
            self._undo.callback(setattr, config, "compile_threads", threads)
            self._undo.callback(triton.disable)
            self._has_triton = True
        return True


def _programs() -> list[Any]:
    """Return references to the programs that torch.compile has made."""
    codes = getattr(sys.modules.get("torch._dynamo.convert_frame"), "output_codes", None)
    return [] if codes is None else list(codes.seen)


def _calling(lowering: Any, op: Any, open_triton: Any) -> Any:
    """Return Inductor's rule to call an operator on the CPU, where halfulp's kernels are, or libdevice's on CUDA."""
    call, own = lowering.fallback_handler(op, add_to_fallback_set=False), lowering.lowerings[op]

    def lower(*operands: Any) -> Any:
        devices = {operand.get_device().type for operand in operands if hasattr(operand, "get_device")}
        if devices <= {"cpu"} and not lowering.V.graph.cpp_wrapper:
            return call(*operands)
        if devices == {"cuda"} and open_triton() and not lowering.V.graph.cpp_wrapper:
            kind = lowering.ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
            powers = lowering.pow_native(*lowering.transform_args(list(operands), {}, True, kind, False)[0])
            real: Any = {torch.float32: np.float32, torch.float64: np.float64}.get(powers.get_dtype())
            numbers = [operand for operand in operands if not hasattr(operand, "get_dtype")]
            if real and all(isinstance(n, float | int) and float(real(n)) == n for n in numbers):
                return powers
        _warn("C++ wrappers" if devices <= {"cpu"} else f"programs for {', '.join(sorted(devices))}")
        return own(*operands)

    return lower


def _warn(where: str) -> None:
    told = f"torch.compile keeps torch's own powers in {where}; call halfulp.integrations.torch.pow there"
    warnings.warn(told, HalfulpWarning, stacklevel=3)
