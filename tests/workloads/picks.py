#!/usr/bin/env python3
"""Calls that tell their number: in each of four training steps five of torch.mul and three of torch.add, of
which the first argument is how many of this op there have been, in shape (1,) or, when that is even, (2,)."""

import torch

made = {"mul": 0, "add": 0}
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)


def call(name):
    made[name] += 1
    n = made[name]
    getattr(torch, name)(torch.full((1 + (n + 1) % 2,), float(n)), 2)


for step in range(4):
    for _ in range(5):
        call("mul")
    for _ in range(3):
        call("add")
    optimizer.zero_grad()
    torch.square(weight).sum().backward()
    optimizer.step()
