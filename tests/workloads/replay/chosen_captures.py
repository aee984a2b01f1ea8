"""Captures whose results another right kernel could have given, and some that none could, for the tests of replay:
chosen_captures.py FOLDER."""
import os
import sys

import torch

torch.manual_seed(0)
a, square = torch.randn(5, 4), torch.randn(6, 6)
sign = torch.tensor([1.0, -1, 1, -1])
turned = torch.tensor([3, 0, 5, 1, 2, 4])
u, s, v = torch.linalg.svd(a, full_matrices=False)
q, r = torch.linalg.qr(a)
values, vectors = torch.linalg.eig(square)
grads = torch.randn(4), torch.randn(5, 4)
equal = torch.tensor([1, 3, 3, 2])
deficient = torch.ones(4, 2)
CALLS = {
    # id: (function, arguments, results, gradients of the results, those of the inputs)
    1: ("linalg.svd", (a, False), (u * sign, s, sign[:, None] * v)),
    2: ("linalg.svd", (a, False), (u, s * 1.01, v)),
    3: ("linalg.eig", (square,), (values[turned], vectors[:, turned])),
    4: ("linalg.eigvals", (square,), (values[turned] * 1.01,)),
    5: ("linalg.qr", (a,), (q * sign, sign[:, None] * r)),
    6: ("linalg.lstsq", (deficient, torch.ones(4, 1)), (torch.tensor([[0.25], [0.75]]), torch.empty(0), torch.empty(0), torch.empty(0))),
    7: ("argmax", (equal,), (torch.tensor(2),)),
    8: ("argmax", (equal,), (torch.tensor(3),)),
    9: ("linalg.svd", (a.clone().requires_grad_(), False), (u * sign, s, sign[:, None] * v), (None, grads[0], None), (u * grads[0] @ v,)),
    10: ("linalg.svd", (a.clone().requires_grad_(), False), (u * sign, s, sign[:, None] * v), (grads[1], None, None), (a,)),
}
for n, (name, args, results, *more) in CALLS.items():
    folder = os.path.join(sys.argv[1], f"op_tools_results/op_capture_results/torch.{name}/7/{n}/2026-01-01-00-00-00")
    os.makedirs(folder)
    for part, x in zip(("input", "output", "grad_outputs", "grad_inputs"), (args, results, *more)):
        torch.save({"name": f"torch.{name}", "args": x, "kwargs": {}, "identifier": f"{n}/{part}"}, f"{folder}/{part}.pth")
