"""Calls whose inputs autocast casts, each with a backward: those of one dtype and of two, to the lower one and to float32.
A weight that is used twice is cast once: what leaves its cast are the gradients of both calls. One call raises."""
import contextlib

import torch

torch.manual_seed(0)
a, b, c = (torch.nn.Linear(16, 16) for _ in range(3))
x, y = torch.randn(8, 16), torch.zeros(8, dtype=torch.long)
with torch.autocast("cpu", dtype=torch.bfloat16):
    with contextlib.suppress(RuntimeError):
        torch.bmm(x[None], x[None])
    z = b(a(a(x))).relu()
    loss = torch.nn.functional.cross_entropy(z, y) + torch.bmm(x[None], torch.randn(1, 16, 4)).sum() + c(x).float().sum()
loss.backward()
