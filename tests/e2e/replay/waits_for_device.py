"""Which function replay/runner/device.py, given, calls to wait for devices of which none need be here."""
import runpy
import sys

import torch

synchronize = runpy.run_path(sys.argv[1])["synchronize"]
waited = []
torch.cuda.synchronize = lambda device=None: waited.append(device)
torch.of_one = type("of_one", (), {"synchronize": lambda: waited.append("of one")})
for device in ("cpu", "meta", "cuda", "cuda:1", "of_one:0", "of_none:0"):
    synchronize(device)
assert waited == [None, "cuda:1", "of one"], waited
