#!/usr/bin/env python3
"""Calls of all sorts whose results are small whole numbers, the same in every dtype and on every device:
changes.py [--device lazy|cpu] [--dtype float32]. What it prints must not depend on how they were computed."""

import argparse
import threading

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, resolve_name

p = argparse.ArgumentParser()
p.add_argument("--device", default="lazy")
p.add_argument("--dtype", default="float32")
a = p.parse_args()
if a.device == "lazy":
    import torch._lazy
    import torch._lazy.ts_backend
    torch._lazy.ts_backend.init()


def t(*values, grad=False):
    return torch.tensor(values, dtype=getattr(torch, a.dtype)).to(a.device).requires_grad_(grad)


def show(what, *tensors):
    print(what, *([x.detach().cpu().tolist(), str(x.dtype), x.device.type] if isinstance(x, torch.Tensor) else x
                  for x in tensors))


x = t(1, 2, 3)
show("in place", x.add_(1), x, x.add_(1) is x)
x += 1
x[0] = 9
show("operators", x, 1 - x, x**2, x @ x, -x, x == 4, ~(x > 4))
big = t((0, 0, 0), (0, 0, 0))
big[1].add_(5)
big.t()[0].mul_(2)
show("into a view", big)
v = x.view(3, 1)
v.sub_(1)
show("seen through a view", x)
m = torch.max(big, 1)
show("named", type(m).__name__, m.values, m.indices)
show("two results", *torch.sort(x), *x.sort(descending=True))
out = torch.empty(3, dtype=x.dtype).to(a.device)
show("out", torch.add(x, x, out=out), torch.add(x, x, out=out) is out, out)
y = t(-1, 1)
show("inplace=True", F.relu(y, inplace=True), y)
show("lists", torch.cat([x, x]), torch.stack((x, x)), *torch.broadcast_tensors(x, t(1)))
show("numbers", x.sum().item(), int(x[0]), bool((x > 100).any()))
show("dropout", F.dropout(x, 0.5, training=False), F.dropout(x, 0.5, training=False) is x)

w = t((1, 2, 3), (4, 5, 6), grad=True)
b = t(1, 1, grad=True)
h = F.linear(t(1, 0, 2), w, b)
h = h * h
h.add_(1)
(h * t(1, 2)).sum().backward()
show("gradients", w.grad, b.grad, h, h.requires_grad)
with torch.no_grad():
    w -= w.grad
    b.copy_(b.grad)
show("updated", w, b, w.is_leaf, w.requires_grad)
r, k = t((1, 0), (2, 1), grad=True), t((1, 2), (3, 1), grad=True)
(g,) = torch.autograd.grad(F.linear(r, k).sum(), r, create_graph=True)
g.square().sum().backward()
show("gradient of a gradient", g, k.grad)

for wrong in (lambda: torch.mm(x, x), lambda: F.linear(x, t(1, 2)), lambda: w.add_(1), lambda: torch.add(x, "no")):
    try:
        wrong()
        print("nothing was raised")
    except Exception as e:  # its type; the text may name a device
        print("raised", type(e).__name__)


class Own(TorchFunctionMode):
    names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(resolve_name(func))
        r = func(*args, **(kwargs or {}))
        return r * 2 if func is torch.mul else r


with Own():
    doubled = torch.mul(x, 3)
    F.linear(t(1, 2, 3), w)
show("own mode", doubled)
print("it saw", [n for n in Own.names if n in ("torch.mul", "torch.Tensor.mul", "torch.nn.functional.linear")])


class Sub(torch.Tensor):
    calls, softmaxes = 0, 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls += func is torch.add
        cls.softmaxes += func is F.softmax
        return super().__torch_function__(func, types, args, kwargs or {})


s = torch.add(t(1, 2).as_subclass(Sub), 1)
F.softmax(s, 0)
print("subclass", Sub.softmaxes, type(s).__name__, Sub.calls, s.as_subclass(torch.Tensor).cpu().tolist())


def in_thread():
    show("thread", torch.add(x, x).mul_(2))


thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
if hasattr(torch, "vmap") and a.device == "cpu":
    show("vmap", torch.vmap(lambda r: r * 2 + 1)(t((1, 2), (3, 4))))
show("random", torch.randint(0, 9, (4,), generator=torch.Generator().manual_seed(1)))
torch.manual_seed(3)
show("seeded", torch.randperm(5))
if a.device == "cpu":
    torch.manual_seed(4)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()  # computes in another way under some modes
    with torch.no_grad():
        show("in one operator", layer(torch.randn(2, 3, 8))[0, 0])
