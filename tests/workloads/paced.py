"""busy.py, asleep for most of the time: what is traced costs, not how long."""

import time

import torch

linear = torch.nn.functional.linear
torch.nn.functional.linear = lambda *x: time.sleep(0.001) or linear(*x)
import busy  # noqa: E402, F401
