#!/usr/bin/env python3
"""Calls that tell their number: in each of four training steps five of torch.mul and three of torch.add, of
which the first argument is how many of this op there have been, in shape (1,) or, when that is even, (2,).

    picks.py [again]

again: in one child after the other, of which each calls torch.tanh until SIGUSR1 comes, by which it can be seen that ditrace
has come. No child has what was left in the code of the one before."""

import os
import signal
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import eager  # noqa: E402, F401

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)


def call(name):
    made[name] += 1
    n = made[name]
    getattr(torch, name)(torch.full((1 + (n + 1) % 2,), float(n)), 2)


def stand_by():
    """Returns in each child."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    parent = os.getpid()
    while os.fork():
        os.wait()
    two = torch.ones(2)
    print("pid", os.getpid(), flush=True)
    while signal.SIGUSR1 not in signal.sigpending():  # sigtimedwait, when interrupted at its end, gives a signal that did not come
        time.sleep(0.02)
        torch.tanh(two)
        if os.getppid() != parent:
            sys.exit()


if "again" in sys.argv:
    stand_by()
made = {"mul": 0, "add": 0}
for step in range(4):
    for _ in range(5):
        call("mul")
    for _ in range(3):
        call("add")
    optimizer.zero_grad()
    torch.square(weight).sum().backward()
    optimizer.step()
