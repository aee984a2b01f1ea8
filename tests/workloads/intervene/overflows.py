#!/usr/bin/env python3
"""A logarithm of zero and of a negative number, a root whose gradient is infinite, and an infinity that is written into a
tensor."""

import torch

torch.log(torch.tensor([1.0, 0.0, -1.0])).nan_to_num(0, 0, 0).sum()
torch.sqrt(torch.tensor([4.0, 0.0], requires_grad=True)).sum().backward()
x = torch.ones(2)
x[0] = float("inf")
