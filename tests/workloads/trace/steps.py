"""200 calls of a product with so many rows, and of some other ops: steps.py ROWS [more]"""

import sys

import torch

torch.set_num_threads(1)
a, b, c = torch.ones(int(sys.argv[1]), 256), torch.ones(256, 256), torch.ones(64)
for _ in range(200):
    d = torch.mm(a, b)
    e = torch.tanh(c)
    f = torch.mul(c, e)
if len(sys.argv) > 2:
    torch.sigmoid(c)
