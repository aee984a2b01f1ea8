"""Says its pid, then counts its steps on standard output until SIGTERM, which ends it well. The numbers are those of PyTorch."""

import os
import signal

import torch

going = True


def stop(*_):
    global going
    going = False


signal.signal(signal.SIGTERM, stop)
torch.set_num_threads(1)
x, ones = torch.zeros(1000), torch.ones(1000)
print("pid", os.getpid(), flush=True)
while going:
    x = torch.add(x, ones)
    print(int(x[0].item()), flush=True)
print("ended well", flush=True)
