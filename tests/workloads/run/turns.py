"""turns.py FILE|N: trains until there is such a file, or N steps; says how many and what has become of the weights.
In each step ops lie in others, in a function of Python's, in the backward, and one throws. aten::arange begins a step."""

import os
import sys
import time

import torch


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
inputs = torch.randn(4, 8)


def step():
    torch.arange(3)
    optimizer.zero_grad()
    Twice.apply(model(inputs)).square().mean().backward()
    optimizer.step()
    try:
        torch.ones(2) + torch.ones(3)
    except RuntimeError:
        pass


def goes_on(n):
    return n < int(sys.argv[1]) if sys.argv[1].isdigit() else not os.path.exists(sys.argv[1])


n = 0
print("ready", flush=True)
while goes_on(n):
    step()
    n += 1
    if not sys.argv[1].isdigit():
        time.sleep(0.02)
print(n, *(p.double().sum().item().hex() for p in model.parameters()), flush=True)
