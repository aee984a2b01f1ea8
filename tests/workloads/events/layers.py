#!/usr/bin/env python3
"""Calls that pass through layers of the dispatcher: vmap, grad and jvp, one within the other, modes of Python."""

import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import observer

try:
    from torch.func import grad, jvp, vmap
except ImportError:
    from functorch import grad, jvp, vmap
from torch.utils._python_dispatch import TorchDispatchMode


class Passes(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def loss(w, x):
    return (torch.tanh(x @ w) * 2).sum()


def layers():
    torch.manual_seed(0)
    w, x = torch.randn(3, 2), torch.randn(4, 5, 3)
    each = vmap(grad(loss), in_dims=(None, 0))(w, x)
    twice = vmap(vmap(lambda a, b: (a <= b) & (b == 2), (None, 0)), (0, None))(torch.arange(3), torch.arange(4))
    out, tangent = jvp(torch.sin, (x,), (torch.ones_like(x),))
    with Passes():
        moded = (x + 1).relu()
    return each.sum() + twice.sum() + tangent.sum() + out.sum() + moded.sum()


if __name__ == "__main__":
    layers()
    with observer.region(sys.argv[2] if "--log" in sys.argv else None):
        total = layers()
    print("layers", total.item())
