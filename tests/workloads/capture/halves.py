#!/usr/bin/env python3
"""The ops of ditorch's own example, in half precision, with their backward."""

import torch

torch.manual_seed(0)
x = torch.randn(10, 20, requires_grad=True)
for half in torch.float16, torch.bfloat16:
    a = x.to(half)
    b = a * 2
    c = b + a
    d = c - b
    e = d / 0.5
    v, indices = e.sort()
    y = v
    if half is torch.bfloat16:  # the CPU of some versions has no linear of float16
        w, bias = (torch.randn(s, requires_grad=True) for s in ((7, 20), (7,)))
        y = torch.nn.functional.linear(v, w.to(half), bias.to(half))
    y.sum().backward()
