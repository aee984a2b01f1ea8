#!/usr/bin/env python3
"""The captures of workloads/capture/lazy.py below ROOT equal its values, or are missing: lazy_captures.py ROOT VALUES
"""

import glob
import sys

import torch

values = torch.load(sys.argv[2])
folders = glob.glob(sys.argv[1] + "/op_tools_results/op_capture_results/torch.mul/*/*/*")
folders.sort(key=lambda f: int(f.split("/")[-2]))
assert len(folders) == len(values), folders
there = ""
for folder, want in zip(folders, values):
    files = glob.glob(folder + "/input.pth")
    there += "x" if files else "-"
    for f in files:
        got = torch.load(f)["args"]
        for a, b in zip(got, want):
            assert a.dtype == b.dtype and a.shape == b.shape, f
            assert torch.equal(a.resolve_conj().resolve_neg(), b), (f, a, b)
print(there)
