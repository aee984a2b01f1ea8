#!/usr/bin/env python3
"""Four steps of a function through torch.compile, which makes one kernel of its forward and one of its backward."""

import torch
from torch._inductor import config

config.cpp.simdlen = 1  # does not try out what vectors the compiler knows
torch.set_num_threads(1)
x = torch.linspace(-1, 1, 1000, requires_grad=True)
step = torch.compile(lambda x: (x * 2).relu().sin())
for _ in range(4):
    step(x).sum().backward()
print(f"sum {x.grad.sum().item():.17g}")
