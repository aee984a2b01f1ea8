"""Two operators on the lazy device."""

import torch
from torch._lazy import ts_backend

ts_backend.init()
x = torch.ones(2).to("lazy")
x.add_(1)
print(torch.mul(x, 3).cpu().tolist())
