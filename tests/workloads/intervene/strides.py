"""Sums of what does not lie in one piece, or lies over itself: in which order they are added up depends on that."""

import torch

torch.manual_seed(0)
for _ in range(100):
    torch.rand(5, 5, 5)[:, :, ::2].sum()
    x = torch.randn(64, 100)
    x[:, 3].sum()
    x.expand(3, 64, 100).sum()
    x.as_strided((60, 5), (1, 1)).sum()
    x[:0].sum()
    torch.softmax(x[:, 1::2], 1)
