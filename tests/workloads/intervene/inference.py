"""Two calls on the lazy device under inference_mode, one of them in place."""

import torch
from torch._lazy import ts_backend

ts_backend.init()
x = torch.ones(2).to("lazy")
with torch.inference_mode():
    print(torch.add(x, x).mul_(3).cpu().tolist())
