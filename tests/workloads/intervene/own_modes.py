#!/usr/bin/env python3
"""Modes of the program's own, one in the other, of functions and of operators, left in order, left by an exception and
put on again: what each sees of the calls, and what the calls give, must not depend on another mode that is on."""

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

SEEN = []
# An operator that computes with conjugates of its own.
print(torch.linalg.pinv(torch.tensor([[2, 1j], [1 + 1j, 3]])).tolist())


class Named(TorchFunctionMode):
    def __init__(self, name, factor):
        self.name, self.factor = name, factor

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = resolve_name(func)
        r = func(*args, **(kwargs or {}))
        if name in ("torch.mul", "torch.nn.functional.softmax", "torch.Tensor.add"):
            SEEN.append(f"{self.name}:{name.split('.')[-1]}")
            return r * self.factor
        return r


class Counted(TorchDispatchMode):
    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if str(func).startswith(("aten.mul", "aten._softmax", "aten.gelu")):
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
a, b, c = Named("a", 2), Named("b", 4), Counted()
with a:
    with b:
        print("both", torch.mul(x, 2).tolist(), F.softmax(x * 0, 0).sum().item())
    print("one", torch.mul(x, 2).tolist(), x.add(1).tolist())
try:
    with b:
        torch.mul(x, torch.ones(2))
except RuntimeError:
    print("raised, and", torch.mul(x, 2).tolist())
with b, c, a:
    y = F.gelu(torch.mul(x, 2)).sum()
    y.backward()
    print("three", round(y.item(), 4), [round(g, 4) for g in x.grad.tolist()])
with a:
    print("again", torch.mul(x, 2).tolist())
print("none", torch.mul(x, 2).tolist())
print(SEEN, c.names)
