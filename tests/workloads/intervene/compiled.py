#!/usr/bin/env python3
"""Compiled, scripted and traced functions (torch.compile where there is one)."""

import torch
import torch.nn.functional as F


def f(x):
    return F.relu(x) * 2 + x.add(1)


x = torch.ones(3, requires_grad=True)
if hasattr(torch, "compile"):
    y = torch.compile(f, backend="eager")(x)
    y.sum().backward()
    print("compiled", y.tolist(), x.grad.tolist())


@torch.jit.script
def g(x):
    return x.relu() * 3


print("scripted", g(x).tolist())
h = torch.jit.trace(f, torch.ones(2))
print("traced", h(torch.ones(2)).tolist(), [n.kind() for n in h.graph.nodes() if n.kind().startswith("aten::")])
