#!/usr/bin/env python3
"""A training under autocast, a part of it computed again in the backward; a layer is used twice in a step, and autocast casts its
weight once: autocast.py [fault]. Prints each loss, all bits of it. fault: gelu is wrong, but not where autocast is off."""

import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def plant():
    def gelu(x, *, approximate="none"):
        wide = x.double()
        right = torch.erf(wide * 0.5**0.5).add(1).mul(wide * 0.5)
        return right.mul(1.05 if torch.is_autocast_cpu_enabled() else 1).to(x.dtype)

    lib = torch.library.Library("aten", "IMPL")
    lib.impl("gelu", gelu, "CPU")
    return lib


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow, self.norm = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        x = self.norm(x)
        x = torch.softmax(x @ x.transpose(-1, -2), -1) @ x
        return x + self.narrow(F.gelu(self.wide(x)))


kept = plant() if "fault" in sys.argv else None
torch.manual_seed(0)
torch.set_num_threads(1)
block = Block()
optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
x = torch.randn(4, 8, 16)
for step in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = block(checkpoint(block, x, use_reentrant=False).float())
        loss = F.mse_loss(h.float(), torch.zeros_like(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), flush=True)
