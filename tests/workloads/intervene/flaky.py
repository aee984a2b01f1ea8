#!/usr/bin/env python3
"""A training on the CPU with a kernel of gelu's backward that is slightly wrong whenever it sees numbers for the first
time, and right when it is asked again."""

import torch
import torch.nn.functional as F

lib = torch.library.Library("aten", "IMPL")
seen = set()


def gelu_backward(g, x, *, approximate="none"):
    key = tuple(g.reshape(-1).tolist())
    wrong = 1.001 if g.dtype == torch.float32 and key not in seen else 1.0
    seen.add(key)
    dtype, g, x = g.dtype, g.double(), x.double()
    slope = 0.5 * (1 + torch.erf(x * 0.5**0.5)) + x * torch.exp(-0.5 * x * x) * 0.3989422804014327
    return (g * slope * wrong).to(dtype)


lib.impl("gelu_backward", gelu_backward, "CPU")
gen = torch.Generator().manual_seed(0)
x = torch.randn(8, 6, generator=gen)
w = torch.randn(4, 6, generator=gen).requires_grad_(True)
for step in range(3):
    loss = F.gelu(F.linear(x, w)).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
    print(step, float(loss.detach()))
