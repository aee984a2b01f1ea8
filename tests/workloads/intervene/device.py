#!/usr/bin/env python3
"""A training on PyTorch's lazy device, a second one that machines without a GPU have, or on the CPU: device.py
[--device lazy|cpu] [--steps N] [--fault forward|backward] [--threads] [--alone] [--memory]. Prints the loss of each step, all its bits.
A fault makes gelu slightly wrong on the device, in its forward or its backward alone. --alone: goes on until no mode is on, and says so. --memory: says on standard error what memory steps 20 and 200 have."""

import argparse
import os
import sys
import threading
import time

import torch
import torch.nn.functional as F

p = argparse.ArgumentParser()
p.add_argument("--device", default="lazy")
p.add_argument("--steps", type=int, default=3)
p.add_argument("--fault", choices=("forward", "backward"))
p.add_argument("--threads", action="store_true")
p.add_argument("--alone", action="store_true")
p.add_argument("--memory", action="store_true")
p.add_argument("--dtype", default="float32")
a = p.parse_args()
if a.device == "lazy":
    import torch._lazy
    import torch._lazy.ts_backend
    torch._lazy.ts_backend.init()
device, dtype = torch.device(a.device), getattr(torch, a.dtype)


def plant():
    """Other kernels for the device."""
    lib = torch.library.Library("aten", "IMPL")
    wrong = {"forward": 1.001 if a.fault == "forward" else 1.0, "backward": 1.001 if a.fault == "backward" else 1.0}

    def gelu(x, *, approximate="none"):
        return (torch.ops.aten.gelu(x.to("cpu")) * wrong["forward"]).to(x.device)

    def gelu_backward(g, x, *, approximate="none"):
        return (torch.ops.aten.gelu_backward(g.to("cpu"), x.to("cpu")) * wrong["backward"]).to(x.device)

    lib.impl("gelu", gelu, "Lazy")
    lib.impl("gelu_backward", gelu_backward, "Lazy")
    return lib


kept = plant() if a.fault else None


def train():
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(8, 6, generator=gen).to(dtype).to(device)
    y = torch.randint(0, 4, (8,), generator=gen).to(device)
    w = [torch.randn(n, m, generator=gen).mul(0.5).to(dtype).to(device).requires_grad_(True) for n, m in ((16, 6), (4, 16))]
    for step in range(a.steps):
        h = F.linear(x, w[0])
        h = F.gelu(h)
        h = F.layer_norm(h, (16,))
        h = h.view(8, 4, 4).transpose(1, 2).reshape(8, 16)
        h = F.linear(h, w[1])
        h = h + 0.5
        h.mul_(2)
        loss = F.cross_entropy(h.float(), y)
        loss.backward()
        with torch.no_grad():
            for t in w:
                t -= 0.1 * t.grad
                t.grad = None
        if a.memory and step in (20, 200):
            with open("/proc/self/statm", encoding="ascii") as f:
                print("resident", int(f.read().split()[1]) // 256, file=sys.stderr, flush=True)
        print(step, float(loss.detach().cpu()).hex(), flush=True)


if a.threads:
    t = threading.Thread(target=train)
    t.start()
    t.join()
else:
    train()
if a.alone:
    end = time.monotonic() + float(os.environ.get("PATIENCE", 180))
    while torch._C._len_torch_function_stack() and time.monotonic() < end:
        torch.ones(2).add_(1)
    print("modes", torch._C._len_torch_function_stack())
