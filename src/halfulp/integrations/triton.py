"""``enable()`` makes ``libdevice.pow`` correctly rounded in the kernels that Triton compiles, until ``disable()``.

This holds for float32 and float64, also for exponents in int32, in all threads of the process: halfulp's library is
linked before NVIDIA's. Kernels that ran before are compiled again. A process that compiles for another one, as
torch.compile's workers do, needs a call of its own. Triton has to be 3.3 or later.
"""

import gc
from functools import partial, wraps
from typing import Any

from halfulp.cuda import compiled_file
from halfulp.errors import HalfulpError
from halfulp.integrations import Replacement

BITCODE = compiled_file("powers.bc")


def _link(*, ours: bool) -> None:
    if BITCODE is None:
        raise HalfulpError("this installation has no powers for Triton: it was built without HALFULP_CUDA=1")
    from triton.backends.nvidia.compiler import CUDAOptions
    from triton.runtime.jit import JITFunction

    complete = getattr(CUDAOptions.__post_init__, "__wrapped__", CUDAOptions.__post_init__)

    @wraps(complete)
    def link_ours_first(options: Any) -> None:
        libraries = {"halfulp": str(BITCODE)} | dict(options.extern_libs or {})
        object.__setattr__(options, "extern_libs", libraries)
        complete(options)

    CUDAOptions.__post_init__ = link_ours_first if ours else complete
    for function in gc.get_objects():
        if issubclass(type(function), JITFunction):
            function.device_caches.clear()


_POWERS = Replacement(partial(_link, ours=True), partial(_link, ours=False))
enable, disable = _POWERS.enable, _POWERS.disable
