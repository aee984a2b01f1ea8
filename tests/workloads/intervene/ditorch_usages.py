#!/usr/bin/env python3
"""The calls of ditorch's README, on the lazy device: torch.add, sub, mul and div of halves and floats, a sort with its
backward, and a linear in bfloat16. Prints what they give."""

import torch
import torch._lazy
import torch._lazy.ts_backend

torch._lazy.ts_backend.init()


def numbers(*shape, dtype=torch.float32):
    n = 1
    for s in shape:
        n *= s
    return (torch.arange(1.0, n + 1).reshape(shape) / 8).to(dtype).to("lazy")


x = numbers(2, 3, 4, dtype=torch.float16)
y = numbers(4, 2)
z = numbers(2, 3, 4)
half = torch.add(x, x)
results = [torch.sub(y, y), torch.sub(z, z), torch.mul(x, x), torch.div(y, y), torch.div(z, z)]
e = numbers(10, 20).requires_grad_(True)
ordered, indices = e.sort()
ordered.sum().backward()
w = numbers(8, 4, dtype=torch.bfloat16).requires_grad_(True)
out = torch.nn.functional.linear(numbers(2, 4, dtype=torch.bfloat16), w)
out = torch.nn.functional.relu(out).add(1).sub(0.5)
out.sum().backward()
print(half.dtype, float(half.float().sum()), [(r.dtype, float(r.float().sum())) for r in results], indices[0, :3].tolist(),
      float(e.grad.sum()), out.dtype, float(out.float().sum()), w.grad.dtype, float(w.grad.float().sum()))
