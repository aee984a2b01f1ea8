#!/usr/bin/env python3
"""Calls whose results, dtypes and effects must not depend on the dtype they are computed in: cast_kept.py
[lazy]. All numbers are exact in every dtype, but for what is read or has no half precision."""

import sys

import torch
import torch.nn.functional as F

device = "cpu"
if "lazy" in sys.argv:
    import torch._lazy
    import torch._lazy.ts_backend
    torch._lazy.ts_backend.init()
    device = "lazy"


def t(*values, dtype=torch.float32):
    return torch.tensor(values).to(dtype).to(device)


def show(what, *tensors):
    print(what, *((str(x.dtype)[6:], x.detach().cpu().tolist()) for x in tensors))


def lists():
    return [t(1, 2), t(3, 4, dtype=torch.bfloat16), t(5, 6, dtype=torch.int64)]


x, w = t((1, 2), (3, 4)).requires_grad_(True), t((1, 1), (2, 0)).requires_grad_(True)
y = F.linear(x, w)
y.sum().backward()
F.mse_loss(x, w).backward()
z = t(0.0, 0).requires_grad_(True)
torch.special.i1(z).sum().backward()
show("gradients", y, x.grad, w.grad, z.grad)
print("read", float(t(1 + 2**-20)), t(1 + 2**-20).item())

ones = t(1, 2, dtype=torch.bfloat16)
print("in place", ones.add_(t(1, 2)) is ones)
show("another dtype", ones)
mean, var = t(0.0, 0), t(1.0, 1)
normed = F.batch_norm(t((0, 4), (4, 0), dtype=torch.float32), mean, var, None, None, True, 0.5, 1e-12)
show("statistics", normed, *((mean, var) if device == "cpu" else ()))  # the lazy device forgets them
with torch.inference_mode():
    negative = t(-1, 2.0)
    F.relu(negative, True)
    show("under inference_mode", negative)
if device == "cpu":
    show("its own dtype", torch.float_power(t(2, 3), 2), torch.bincount(torch.tensor([1, 1]), t(1, 2)))
    show("mixed", F.batch_norm(t((0, 4), (4, 0), dtype=torch.bfloat16), mean, var, None, None, True, 0.5, 1e-12), mean)
    show("lists", *torch._foreach_add(lists(), 1), *torch._foreach_mul(lists()[:1], [t(2)[0]]))
    a, b = lists(), lists()[:1]
    torch._foreach_add_(a, 1)
    torch._foreach_mul_(b, 2)
    show("changed", *a, *b)
    torch._foreach_add_(b, [t(1, 2)])
    show("again", *b)
    torch.manual_seed(0)
    show("random", F.dropout(torch.ones(8), 0.5), torch.nn.init.uniform_(torch.empty(2)), torch.bernoulli(torch.full((4,), 0.5)),
         F.rrelu(-torch.ones(2), training=True), torch.nextafter(t(1), t(2)))
    if hasattr(F, "scaled_dot_product_attention"):
        show("dropout inside", F.scaled_dot_product_attention(*3 * [torch.ones(1, 4, 2)], dropout_p=0.5))
    with torch.autocast("cpu", torch.bfloat16):
        product = F.linear(t((1, 2)), t((1, 1)))
        show("under autocast", product, F.cross_entropy(product, torch.tensor([0])))
