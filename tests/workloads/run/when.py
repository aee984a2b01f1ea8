#!/usr/bin/env python3
"""Calls that are known by number, to be chosen by conditions.

aten::add.Tensor: 7 of float32 (3, 4); 5 of the same with alpha 2, from special(); 3 of float16 (5,);
2 of int64 (200, 2), the second operand turned round; 4 that throw. Forward and backward of 6 products,
3 of them of a weight that needs no gradient.
"""

import torch


def special(x):
    for _ in range(5):
        torch.add(x, x, alpha=2)


def main():
    x = torch.ones(3, 4)
    for _ in range(7):
        torch.add(x, x)
    special(x)
    half = torch.ones(5, dtype=torch.float16)
    for _ in range(3):
        torch.add(half, half)
    long, turned = torch.ones(200, 2, dtype=torch.int64), torch.ones(2, 200, dtype=torch.int64).t()
    for _ in range(2):
        torch.add(long, turned)
    for _ in range(4):
        try:
            torch.add(torch.ones(3), torch.ones(4))
        except RuntimeError:
            pass
    for i in range(6):
        a, w = torch.ones(2, 3, requires_grad=True), torch.ones(3, requires_grad=i % 2 == 0)
        torch.mul(a, w).sum().backward()
    for _ in range(4):
        torch.nn.functional.layer_norm(x, (4,), eps=1e-3)
    torch.cat([x, x]), torch.cat([half, half, half])
    torch.linspace(0, 1, 5)


main()
