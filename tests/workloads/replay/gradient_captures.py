"""Captures of a * b, both of one shape, whose gradients lie in one order or the other, for the tests of replay:
gradient_captures.py FOLDER. The id of each says which it is, see CASES."""

import json
import os
import sys

import torch

CASES = {
    # id: (order of the gradients, factor of the first, the backward node that the capture names)
    1: ((0, 1), 1, None),
    2: ((1, 0), 1, None),
    3: ((0, 1), 1, "MulBackward0"),
    4: ((1, 0), 1, "MulBackward0"),
    5: ((1, 0), 1, "DeviceMulBackward0"),
    6: ((0, 1), 3, "DeviceMulBackward0"),
    7: ((0, 1), 3, None),
}

torch.manual_seed(0)
for n, (order, factor, node) in CASES.items():
    folder = os.path.join(sys.argv[1], "op_tools_results/op_capture_results/torch.mul/7", str(n), "2026-01-01-00-00-00")
    os.makedirs(folder)
    a, b, g = (torch.randn(4, 4) for _ in range(3))
    parts = {"input": (a.clone().requires_grad_(), b.clone().requires_grad_()), "output": (a * b,),
             "grad_outputs": (g,), "grad_inputs": [g * b, g * a]}
    parts["grad_inputs"] = tuple(parts["grad_inputs"][i] * (factor if i == 0 else 1) for i in order)
    for part, args in parts.items():
        path = os.path.join(folder, part + ".pth")
        torch.save({"name": "torch.mul", "args": args, "kwargs": {}, "identifier": f"{n}/{part}"}, path)
        if node:
            with open(path + ".json", "w", encoding="utf-8") as f:
                json.dump({"op": "torch.mul", "node": node}, f)
