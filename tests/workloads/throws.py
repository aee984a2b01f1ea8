#!/usr/bin/env python3
"""Twelve thousand operators that throw, some deep within others, between as many that do not."""

import sys

import torch

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 12000
ATTEMPTS = (
    lambda: torch.ones(3) + torch.ones(4),
    lambda: torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 5)),
    lambda: torch.ones(3).view(7),
    lambda: torch.cat([torch.ones(2, 2), torch.ones(3, 3)]),
    lambda: torch.ops.aten.mm.default(torch.ones(2), torch.ones(2)),
    lambda: torch.nn.functional.layer_norm(torch.ones(2, 3), (4,), None, None, 0.25),
)

torch.set_num_threads(1)
caught, total = 0, torch.zeros(())
for i in range(COUNT):
    try:
        ATTEMPTS[i % len(ATTEMPTS)]()
    except RuntimeError as e:
        caught += 1
        if i < len(ATTEMPTS):
            print(str(e).splitlines()[0])
    total += 1
print(caught, "caught,", int(total), "passed")
