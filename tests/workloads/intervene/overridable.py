#!/usr/bin/env python3
"""Calls a function of PyTorch that is written in Python, and for most of the time is about to ask the mode that is on,
until there is none."""

import sys
import threading
import time

import torch
from torch.overrides import handle_torch_function

ASKS = handle_torch_function.__code__


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def linger(frame, event, arg):
    if event == "c_return" and frame.f_code is ASKS:
        spin(0.02)


# The wish of another thread for the GIL is what makes the first one look for calls that it is to make (CPython 3.11).
threading.Thread(target=spin, args=(3600,), daemon=True).start()
sys.setprofile(linger)
modes = 1
while modes:
    torch.nn.functional.relu(torch.ones(3))
    modes = torch._C._len_torch_function_stack()
    print("modes", modes, flush=True)
    spin(0.005)
print("done")
