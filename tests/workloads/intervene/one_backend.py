"""Attention with all kernels turned off that the CPU has, on the lazy device, which takes none of them."""
import torch
import torch._lazy
import torch._lazy.ts_backend
from torch.nn.attention import SDPBackend, sdpa_kernel

torch._lazy.ts_backend.init()
torch.manual_seed(0)
q, k, v = (torch.randn(2, 2, 6, 8).bfloat16().to("lazy").requires_grad_() for _ in range(3))
with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
    torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
print(q.grad.cpu().float().sum().item())
