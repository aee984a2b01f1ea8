#!/usr/bin/env python3
"""A model through torch.compile, where there is one, with the backend that compiles nothing."""

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
forward = torch.compile(model, backend="eager") if hasattr(torch, "compile") else model
for _ in range(20):
    forward(torch.ones(2, 4)).mean().backward()
print("done")
