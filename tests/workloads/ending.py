"""The end of a program in a fork of a process that has imported PyTorch."""

import atexit
import ctypes
import os
import sys
import threading


class Ending:
    """A program within this ends the process nearly as Python would: its threads have ended, atexit's functions are called, what only
    it holds is gone. But the modules and libraries that were there before the fork are not taken down, which takes longer than
    most programs do, nor are cycles collected: DDP's reducer waits for a thread that may wait for the GIL."""

    def __enter__(self):
        pass

    def __exit__(self, kind, value, _):
        status = getattr(value, "code", 0) or 0
        if kind not in (None, SystemExit) or not isinstance(status, int):
            return  # to Python, which tells it
        threading._shutdown()
        atexit._run_exitfuncs()
        value = None
        vars(sys.modules["__main__"]).clear()
        sys.stdout.flush(), sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)
        os._exit(status & 0xFF)
