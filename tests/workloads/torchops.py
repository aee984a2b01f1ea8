#!/usr/bin/env python3
"""Operators that all come through torch.ops or a dispatch mode: none by the usual way alone."""

import torch

import customops
import modes

torch.set_num_threads(1)
x = torch.ops.aten.full.default([3], 2.0)
for i in range(100):
    torch.ops.aten.add.Tensor(x, x, alpha=i)
    torch.ops.aten.mul.Scalar(x, i)
    customops.ops.numbers(i, 0.5, True, 7)
with modes.Passing():
    torch.ops.aten.neg.default(x)
print("done")
