"""device.py without a step, then one call in this process and one in a fork of it; ends with 7."""

import os
import runpy
import sys

import torch

sys.argv = ["device.py", "--steps", "0"]
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "device.py"), run_name="__main__")
x = torch.ones(2)
pid = os.fork()
torch.add(x, 1)
if pid:
    sys.exit(os.waitpid(pid, 0)[1] or 7)
os._exit(0)
