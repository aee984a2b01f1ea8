"""A small training in bfloat16 whose blocks are computed again in backward (torch.utils.checkpoint), or not: checkpointed.py
[plain]. Prints each loss, the same in both cases."""

import sys

import torch
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.norm, self.dropout = torch.nn.LayerNorm(16), torch.nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.narrow(torch.nn.functional.gelu(self.wide(self.norm(x)))))


torch.manual_seed(0)
torch.set_num_threads(1)
blocks = torch.nn.ModuleList(Block() for _ in range(3)).to(torch.bfloat16)
optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1)
x = torch.randn(8, 16, dtype=torch.bfloat16)
for step in range(3):
    h = x
    for block in blocks:
        h = block(h) if "plain" in sys.argv else checkpoint(block, h, use_reentrant=False)
    loss = h.float().pow(2).mean()
    optimizer.zero_grad()
    # By either function; both start from Python, where a mode may have been taken off
    if step % 2:
        for p, grad in zip(blocks.parameters(), torch.autograd.grad(loss, list(blocks.parameters()))):
            p.grad = grad
    else:
        loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), flush=True)
