"""CUDA: powers and PReLU of arrays in a device's memory, computed there, with the bits of the processor's.

``hu.pow`` and ``hu.prelu`` come here for such arrays. What they launch are the kernels in ``kernels.ptx``, by NVIDIA's
driver; nothing else of CUDA is needed.
"""

from halfulp.cuda.arrays import apply
from halfulp.cuda.launch import device_count, is_available, undecided

__all__ = ["apply", "device_count", "is_available", "undecided"]
