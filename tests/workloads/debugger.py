"""Traces a process, as a debugger does, until it is killed: debugger.py PID"""

import ctypes
import sys
import time

PTRACE_SEIZE = 0x4206

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None):
    sys.exit(1)
print("tracing", flush=True)
time.sleep(36000)
