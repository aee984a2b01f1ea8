"""gelu of a tensor of the CPU, and, with its backward, of one of the lazy device."""

import torch
from torch._lazy import ts_backend

ts_backend.init()
torch.nn.functional.gelu(torch.ones(2))
x = torch.ones(2, device="lazy", requires_grad=True)
torch.nn.functional.gelu(x).sum().backward()
