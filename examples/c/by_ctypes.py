"""float16 powers by ctypes, as any language with foreign functions calls them: python examples/c/by_ctypes.py"""

from __future__ import annotations

import ctypes
import struct

import halfulp as hu


class Array(ctypes.Structure):
    """``halfulp_array`` of halfulp.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("axes", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("swapped", ctypes.c_int32),
    ]


library = ctypes.CDLL(hu.get_library())
library.halfulp_status_text.restype = ctypes.c_char_p
kind = library.halfulp_type_of_name(b"float16")
memory = ctypes.create_string_buffer(struct.pack("<3e", 0.1, 2, 3))
exponent = ctypes.create_string_buffer(struct.pack("<e", 2.5))
x = Array(ctypes.addressof(memory), kind, 1, (ctypes.c_ssize_t * 1)(3), None, 0)
y = Array(ctypes.addressof(exponent), kind, 0, None, None, 0)
status = library.halfulp_pow(ctypes.byref(x), ctypes.byref(y), ctypes.byref(x), None)  # in place
print(library.halfulp_status_text(status).decode(), struct.unpack("<3e", bytes(memory)[:6]))
