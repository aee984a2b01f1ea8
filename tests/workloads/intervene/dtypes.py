#!/usr/bin/env python3
"""Calls on integers and complex numbers whose results have other dtypes than their arguments: what each gives, and the
gradients. All numbers fit in any dtype of their kind. "lazy": some on a device that computes later, too."""

import sys

import torch
import torch._lazy
from torch._lazy import ts_backend
import torch.nn.functional as F


def show(what, *results):
    print(what, *((str(x.dtype)[6:], x.tolist()) for x in results))


x = torch.tensor([[3, 1, 2], [6, 5, 4]])
small, row = x.to(torch.int16), torch.tensor([0, 1])
show("add", torch.add(x, 1), torch.mul(small, 2), x.add(torch.tensor(2)))
show("sums", torch.sum(x), torch.sum(small), torch.cumsum(small, 1), torch.prod(x, 1))
show("indices", *torch.sort(x, 1), torch.argmax(x), torch.nonzero(x > 3), *torch.max(small, 1))
show("real ones", torch.div(x, 4), torch.sqrt(x), torch.mul(x, 0.5), torch.eq(x, 3))
show("of several dtypes", torch.add(small, x), torch.index_select(small, 1, row), torch.gather(x, 1, row.view(1, 2)))
show("told", torch.sum(x, dtype=torch.int32), torch.bucketize(x, torch.tensor([2, 4]), out_int32=True), x.int(), x.short())
show("looked up", F.embedding(row, torch.tensor([[0.5, 1.5], [2.5, 3.5]])), x[row], torch.bincount(row))
y = x.clone()
y.add_(1)
torch.mul(y, 2, out=y)
show("changed", y)

c = torch.tensor([3 + 4j, 1 - 2j], requires_grad=True)
d = torch.tensor([0.5, 2.0], dtype=torch.float64)
show("complex", torch.mul(c, 2), torch.abs(c), torch.add(c.detach(), d), torch.mul(d, torch.tensor(2j)), torch.isreal(c))
show("of real ones", torch.complex(d, d), torch.add(torch.ones(2), 1j), torch.fft.fft(torch.tensor([1.0, 0.0])))
(torch.mul(c, c).abs().sum() + torch.mul(c, torch.tensor(0.5)).real.sum()).backward()
show("gradients", c.grad)

w = torch.tensor([[0.5, 1.5], [2.5, 3.5]], requires_grad=True)
torch.gather(w, 1, torch.tensor([[0], [1]])).sum().backward()
show("of what was gathered", w.grad)

if "lazy" in sys.argv:
    ts_backend.init()
    lazy = F.cross_entropy(torch.ones(2, 2).to("lazy"), row.to("lazy"))
    show("computed later", lazy.cpu())
