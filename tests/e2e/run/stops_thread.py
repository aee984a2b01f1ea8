"""stops_thread.py TID: stops that thread alone, says so, and lets it go when this ends."""

import ctypes
import os
import signal
import sys

PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
tid = int(sys.argv[1])
for request in PTRACE_SEIZE, PTRACE_INTERRUPT:
    if libc.ptrace(request, tid, None, None):
        sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(tid, WALL)
print("stopped", flush=True)
signal.pause()
