#!/usr/bin/env python3
"""A training on the main thread and one on another, until SIGTERM or for --steps N. Prints "main STEP LOSS" and
"other STEP LOSS", all bits of them, and at the end how many modes each thread has on it."""

import argparse
import signal
import threading

import torch
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=1 << 40)
a = p.parse_args()
torch.set_num_threads(1)
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
said = threading.Lock()


def say(*what):
    with said:
        print(*what, flush=True)


def train(name, seed):
    gen = torch.Generator().manual_seed(seed)
    w = torch.randn(6, 6, generator=gen).requires_grad_(True)
    for step in range(a.steps):
        x = torch.randn(4, 6, generator=gen)
        loss = torch.add(F.relu(F.linear(x, w)), 1).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
        say(name, step, loss.item().hex())
        if ended.wait(0.005):
            break
    torch.ones(2).add_(1).sub_(1)
    say("modes of", name, torch._C._len_torch_function_stack())


other = threading.Thread(target=train, args=("other", 2))
other.start()
train("main", 1)
other.join()
