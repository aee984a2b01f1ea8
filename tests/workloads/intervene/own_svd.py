"""A device that chooses other signs of singular vectors than the CPU."""
import torch
import torch._lazy.ts_backend

torch._lazy.ts_backend.init()
lib = torch.library.Library("aten", "IMPL")


def svd(x, full_matrices=False, compute_uv=True, *, driver=None):
    u, s, v = torch.linalg.svd(x.to("cpu"), full_matrices)
    return (-u).to(x.device), s.to(x.device), (-v).to(x.device)


lib.impl("_linalg_svd", svd, "Lazy")
torch.manual_seed(0)
for n in range(2):
    print(float(torch.linalg.svd(torch.randn(4, 3).to("lazy"), False)[1].sum()))
