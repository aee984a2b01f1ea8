#!/usr/bin/env python3
"""Training on the main thread, on another, and on one after the other that is started anew, until SIGTERM or for --steps
N. The first two are under a TorchDispatchMode all the time, and every thread enters a TorchFunctionMode and a
TorchDispatchMode in a `with` for some steps, leaves them, and enters them again. Each mode changes results. Prints "THREAD
STEP LOSS", all bits of it, with the calls that each mode saw, outermost first, and whether their order was kept."""

import argparse
import signal
import threading

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=1 << 40)
a = p.parse_args()
torch.set_num_threads(1)
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
said = threading.Lock()
order = threading.local()


class Functions(TorchFunctionMode):
    seen = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not F.relu:
            return func(*args, **(kwargs or {}))
        self.seen += 1
        order.modes.append("F")
        return func(*args, **(kwargs or {})) * 1.5 + 0.125


class Operators(TorchDispatchMode):
    seen = 0

    def __init__(self, name, factor):
        super().__init__()
        self.name, self.factor = name, factor

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        r = func(*args, **(kwargs or {}))
        if str(func) != "aten.relu.default":
            return r
        self.seen += 1
        order.modes.append(self.name)
        return r * self.factor


def step(w, gen):
    loss = torch.add(F.relu(F.linear(torch.randn(4, 6, generator=gen), w)), 1).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
    return loss.item().hex()


def run(name, seed, steps, first=0):
    gen = torch.Generator().manual_seed(seed)
    w = torch.randn(6, 6, generator=gen).requires_grad_(True)
    for block in range(first, first + steps, 20):
        inner, lower = Functions(), Operators("D", 0.5)
        for i in range(block, block + 20):
            order.modes = []
            if i % 20 < 10:
                with inner, lower:
                    loss = step(w, gen)
            elif i % 20 == 10:
                with lower:
                    with inner:
                        loss = step(w, gen)
            else:
                loss = step(w, gen)
            with said:
                print(name, i, loss, inner.seen, lower.seen, "".join(order.modes), flush=True)
            if ended.wait(0.005):
                return


def under(name, seed):
    with Operators("O", 2.0):
        run(name, seed, a.steps)


def anew():
    for seed in range(a.steps // 20):
        t = threading.Thread(target=run, args=("new", seed, 20, 20 * seed))
        t.start()
        t.join()
        if ended.is_set():
            return


# PyTorch 1.13 fails if several threads are the first to call an operator under a mode (c10/core/PyHandleCache.h).
order.modes = []
with Operators("", 1.0), Functions(), Operators("", 1.0):
    step(torch.zeros(6, 6, requires_grad=True), torch.Generator())
threads = [threading.Thread(target=under, args=("other", 2)), threading.Thread(target=anew)]
for t in threads:
    t.start()
under("main", 1)
for t in threads:
    t.join()
print("modes of main", torch._C._len_torch_function_stack())
