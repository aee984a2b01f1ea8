"""The calls saved by --compare are of gelu, in float64 those of the CPU and in float32 the others: kept_gelus.py
FILE..."""

import sys

import torch

for path in sys.argv[1:]:
    kept = torch.load(path, map_location="cpu", weights_only=True)
    dtypes = {x.dtype for x in kept["args"] if isinstance(x, torch.Tensor)}
    assert kept["name"] == "torch.nn.functional.gelu", path
    assert dtypes == {torch.float64 if "/cpu/" in path else torch.float32}, path
