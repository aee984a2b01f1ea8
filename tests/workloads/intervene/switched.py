#!/usr/bin/env python3
"""A training on the main thread and one on another, until SIGTERM or for --steps N. Prints "main STEP LOSS" and
"other STEP LOSS", all bits of them, and at the end how many modes each thread has on it. --under: both are under modes
of the program's own all the time, which change results and are told how many calls they saw; the main one under
torch.set_default_device, too, where there is one. "stack of THREAD N TIME" tells when the number of modes has changed."""

import argparse
import contextlib
import signal
import threading
import time

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=1 << 40)
p.add_argument("--under", action="store_true")
a = p.parse_args()
torch.set_num_threads(1)
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
said = threading.Lock()


def say(*what):
    with said:
        print(*what, flush=True)


class Own(TorchFunctionMode):
    def __init__(self, factor):
        self.factor, self.seen = factor, 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        r = func(*args, **(kwargs or {}))
        return r * self.factor + 0.125 if func is F.relu else r


def run(name, seed):
    with contextlib.ExitStack() as entered:
        own = [entered.enter_context(Own(f)) for f in (1.5, 0.5)] if a.under else []
        train(name, seed, own)
    torch.ones(2).add_(1).sub_(1)
    say("modes of", name, torch._C._len_torch_function_stack())


def train(name, seed, own):
    gen = torch.Generator().manual_seed(seed)
    w = torch.randn(6, 6, generator=gen).requires_grad_(True)
    modes = None
    for step in range(a.steps):
        x = torch.randn(4, 6, generator=gen)
        loss = torch.add(F.relu(F.linear(x, w)), 1).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
        say(name, step, loss.item().hex(), *(o.seen for o in own))
        was, modes = modes, torch._C._len_torch_function_stack()
        if modes != was:
            say("stack of", name, modes, f"{time.time():.3f}")
        if ended.wait(0.005):
            break


permanent = a.under and hasattr(torch, "set_default_device")
if permanent:
    torch.set_default_device("cpu")
other = threading.Thread(target=run, args=("other", 2))
other.start()
run("main", 1)
other.join()
if permanent:
    torch.set_default_device(None)
    say("and then", torch._C._len_torch_function_stack())
