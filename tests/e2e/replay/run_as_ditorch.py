"""Runs the calls of a capture tree as ditorch's run_op_from_data.py does, and compares their results: run_as_ditorch.py
TREE LEAST GRADIENTS. Also writes the captures of gradient_captures.py to the folder GRADIENTS."""

import glob
import runpy
import sys

import torch

SKIPPED = ("empty", "rand", "resize_", "profiler", "foreach")


def load(path):
    return torch.load(path, **({"weights_only": False} if torch.__version__ >= "2" else {}))


def is_several(x):
    return isinstance(x, (tuple, list))


def check(call, want):
    args = [a.detach() if isinstance(a, torch.Tensor) else a for a in call["args"]]
    got = eval(call["name"])(*args, **call["kwargs"])
    for a, b in zip(got if is_several(got) else (got,), want[0] if len(want) == 1 and is_several(want[0]) else want):
        if isinstance(b, torch.Tensor):
            assert torch.allclose(a.double(), b.double(), 1e-4, 1e-5, equal_nan=True), call["name"]


def run(tree):
    n = 0
    for path in glob.glob(tree + "/op_tools_results/op_capture_results/*/*/*/*/input.pth"):
        call = load(path)
        if not any(s in call["name"] for s in SKIPPED):
            check(call, load(path.replace("input.pth", "output.pth"))["args"])
            n += 1
    return n


tree, least, sys.argv[1:] = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
runpy.run_path("replay/gradient_captures.py", run_name="__main__")
n = run(tree)
print("#", n, "calls")
assert n >= least, n
