"""Runs code that has no names: of a library without symbols, of memory that was written just now, and of libraries that
are loaded at one place one after the other. Prints the line that a JIT gives in the map of the memory, after the map's
name. without_names.py LIBRARY LIBRARY..."""

import _ctypes
import ctypes
import mmap
import os
import sys
import time

import torch  # noqa: F401

spin = ctypes.CDLL(sys.argv[1]).late_spin
spin.argtypes = [ctypes.c_long]
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex("4889f848ffc875fbc3"))  # the same loop
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
jit = ctypes.CFUNCTYPE(None, ctypes.c_long)(at)
for f in spin, jit:
    end = time.thread_time() + 0.25
    while time.thread_time() < end:
        f(20_000_000)
for path in sys.argv[2:]:
    lib = ctypes.CDLL(path)
    lib.late_spin(ctypes.c_long(60_000_000))
    _ctypes.dlclose(lib._handle)
print(f"/tmp/perf-{os.getpid()}.map {at:x} 9 made_late")
