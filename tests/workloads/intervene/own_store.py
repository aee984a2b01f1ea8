#!/usr/bin/env python3
"""An operator of the program's own, on tensors of the lazy device: it has a kernel for the CPU alone, and that writes where no
version counter shows it."""

import torch
import torch._lazy
import torch._lazy.ts_backend

torch._lazy.ts_backend.init()


def store(x, cache, at):
    cache.data[at].copy_(x)


library = torch.library.Library("own", "DEF")
library.define("store(Tensor x, Tensor(a!) cache, int at) -> ()")
library.impl("store", store, "CPU")
by_name, by_overload = torch.zeros(2, 1).to("lazy"), torch.zeros(2, 1).to("lazy")
for i in range(2):
    torch.ops.own.store(torch.full((1,), i + 1.0).to("lazy"), by_name, i)
    torch.ops.own.store.default(torch.full((1,), i + 3.0).to("lazy"), by_overload, i)
print(by_name.cpu().tolist(), by_overload.cpu().tolist())
