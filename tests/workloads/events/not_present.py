#!/usr/bin/env python3
"""Calls flip(tensor, dims) as C++ does, with dims in a page of a file that is mapped and that nobody has touched: the
first to read it is the operator, or who looks on. Ten times with the dims [-1, 0], each in a mapping of its own, at the page's end."""

import ctypes
import mmap
import os
import tempfile

import torch

cpu = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
# at::_ops::flip::call(at::Tensor const &, c10::ArrayRef<long>), its result by a hidden pointer
flip = cpu["_ZN2at4_ops4flip4callERKNS_6TensorEN3c108ArrayRefIlEE"]
flip.restype = None
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]

DIMS = (ctypes.c_int64 * 2)(-1, 0)
x = torch.arange(6.0).view(2, 3)
with tempfile.TemporaryFile() as f:
    f.write(bytes(mmap.PAGESIZE - ctypes.sizeof(DIMS)) + bytes(DIMS))
    f.flush()
    for _ in range(10):
        page = libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_PRIVATE, f.fileno(), 0)
        result = ctypes.c_void_p()  # never given back
        flip(ctypes.byref(result), ctypes.byref(ctypes.c_void_p(x._cdata)),
             ctypes.c_void_p(page + mmap.PAGESIZE - ctypes.sizeof(DIMS)), ctypes.c_size_t(2))
        assert result.value
print("done")
