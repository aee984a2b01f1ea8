#!/usr/bin/env python3
"""c_threads.py LIBRARY (of c_threads.c): threads that threading does not know, one after the other, until SIGTERM: one of
the module _thread, and one that C starts, and waits for with the GIL held. Prints "pid PID", "bare BEFORE AFTER" and "c BEFORE
AFTER", the modes on the thread before and after its first call of PyTorch, and "starts" when the functions of _thread
have changed, with whether they are Python's own."""

import _thread
import ctypes
import os
import signal
import sys
import threading

import torch

ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
torch.set_num_threads(1)
x = torch.ones(2)
unlocked, locked = ctypes.CDLL(sys.argv[1]), ctypes.PyDLL(sys.argv[1])
NAMES = [n for n in ("start_new_thread", "start_new", "start_joinable_thread") if hasattr(_thread, n)]


def modes():
    return torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack()


def work(name):
    before = modes()
    for _ in range(3):
        assert torch.add(x, 1).tolist() == [2, 2]
    print(name, before, modes(), flush=True)


@ctypes.CFUNCTYPE(None)
def called():
    work("c")


print("pid", os.getpid(), flush=True)
was = None
while not ended.wait(0.02):
    own = all(type(getattr(_thread, n)) is type(len) for n in NAMES)
    if own != was:
        print("starts", own, flush=True)
    was = own
    done = threading.Event()
    _thread.start_new_thread(lambda name: (work(name), done.set()), ("bare",))
    done.wait()
    torch.add(x, 1)
    unlocked.begin(called)
    locked.finish()
print("modes of main", modes(), flush=True)
os._exit(0)
