#!/usr/bin/env python3
"""Numbers that stop being finite at a known line.

    nan.py forward|inplace|backward|device|clean [--wait]

Lines that end in a word in capitals are those that tests look for. What is finite and is not is made on
purpose elsewhere: masks of -inf, memory that nobody wrote. With --wait it goes on for a minute at most until a
line comes on its standard input. Prints results, so that two runs can be compared bit by bit.
"""

import select
import sys

import torch


def make_uninitialised():
    for n in (64, 4096):
        junk = torch.full((n,), float("nan"))
        del junk
        fresh = torch.empty(n)
        fresh.zero_()


def attention(x):
    scores = x @ x.t()
    hidden = torch.ones(scores.shape, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1)


def aligned():
    """The loss's own log_alpha, which its backward reads, begins with -inf."""
    return torch.nn.functional.ctc_loss(torch.zeros(6, 1, 4).log_softmax(2), torch.tensor([[1, 2]]), (6,), (2,))


def step(x, i):
    make_uninitialised()
    aligned()
    loss = (attention(x) * 2 + i).relu().sum()
    loss.backward()
    return loss


def forward():
    w = torch.ones(3) / torch.zeros(3)  # FORWARD
    return w * 0


def inplace():
    a = torch.full((3,), 7.0)
    b = a - a
    a.div_(b)  # INPLACE
    return a


class Root(torch.nn.Module):
    def forward(self, x):
        return x.sqrt()  # BACKWARD


def backward():
    z = torch.tensor([0.0, 4.0], requires_grad=True)
    y = (Root()(z) * 3).sum()
    y.backward()
    return z.grad


def device():
    """On PyTorch's lazy device, a second one that machines without a GPU have."""
    import torch._lazy
    import torch._lazy.ts_backend
    torch._lazy.ts_backend.init()
    z = torch.tensor([0.0, 4.0], device="lazy", requires_grad=True)
    y = (Root()(z) * 3).sum()
    y.backward()
    return z.grad.cpu()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x = torch.rand(4, 5, requires_grad=True)
    print("ready", flush=True)
    i = 0
    while i < 3 or ("--wait" in sys.argv and i < 600 and not select.select([sys.stdin], [], [], 0.1)[0]):
        loss = step(x, i % 3)
        i += 1
    if sys.argv[1] != "clean":
        print(globals()[sys.argv[1]]().tolist(), flush=True)
    x.grad = None
    print(step(x, 1).item().hex(), x.grad.sum().item().hex(), flush=True)


if __name__ == "__main__":
    main()
