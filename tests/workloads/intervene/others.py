#!/usr/bin/env python3
"""A program that calls functions of others_pkg: others.py [--device lazy|cpu] [--loop]. Prints what they give, all bits, and
gradients, and whether all names are bound to what they were, when that has changed and at the end; with --loop until
SIGTERM."""

import argparse
import signal
import sys

import torch
import others_pkg
from others_pkg import Scaler, nest as bound
from others_pkg.mod import nest as bound_again

p = argparse.ArgumentParser()
p.add_argument("--device", default="lazy")
p.add_argument("--loop", action="store_true")
o = p.parse_args()
if o.device == "lazy":
    import torch._lazy
    import torch._lazy.ts_backend
    torch._lazy.ts_backend.init()


def own(x):
    return torch.exp(x) + 1


def bindings():
    names = vars(Scaler)
    return [bound, bound_again, others_pkg.nest, others_pkg.mod.nest, others_pkg.wrong, own, list(sys.meta_path),
            names["forward"], names["twice"], names["thrice"], "apply" in vars(others_pkg.Square)]


def hexed(t):
    return [float(v).hex() for v in t.detach().cpu().reshape(-1)]


def step(i):
    a = (torch.arange(3.0) + i).to(o.device).requires_grad_(True)
    s = Scaler().to(o.device)
    out = bound((a, (a, {"x": a + 1})), more=[torch.ones(3).to(o.device)])
    again = bound_again((a, (out["parts"][1][0], {"x": a})))
    box = others_pkg.boxed(a)
    total = (out["r"] + again["r"] + s(a, bias=1.5)["out"][0] + Scaler.twice(a) + s.thrice(a) + others_pkg.square(a) + own(a) + box.x +
             others_pkg.wrong(a.detach())).sum()
    total.backward()
    print(i, type(out).__name__, out["r"].device, box.x.device, *hexed(total), *hexed(a.grad), *hexed(s.w.grad), flush=True)


def is_as_before():
    return all(x is y or x == y for x, y in zip(before, bindings()))


def tell(same):
    print("bound as before" if same else "bound otherwise", flush=True)
    return same


before, ends = bindings(), []
if o.loop:
    signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
i, was = 0, True
while i < 2 or (o.loop and not ends):
    step(i)
    if is_as_before() != was:
        was = tell(not was)
    i += 1
tell(is_as_before())
