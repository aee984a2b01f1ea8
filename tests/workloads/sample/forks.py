"""A fork multiplies matrices, and this process waits for it."""

import os

import torch

a = torch.randn(400, 400)
if not os.fork():
    for _ in range(60):
        torch.mm(a, a)
    os._exit(0)
os.wait()
