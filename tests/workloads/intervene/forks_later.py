"""Calls torch.relu once a mode is on it, then nothing until there is the file FOLDER/fork; then forks, and both call torch.relu
20 times: forks_later.py FOLDER"""

import os
import sys
import time

import torch

x = torch.ones(3)
print("ready", flush=True)
while not torch._C._len_torch_function_stack():
    torch.ones(1)
    time.sleep(0.01)
torch.relu(x)
print("met", flush=True)
while not os.path.exists(os.path.join(sys.argv[1], "fork")):
    time.sleep(0.01)
pid = os.fork()
for _ in range(20):
    torch.relu(x)
sys.exit(os.waitpid(pid, 0)[1] if pid else 0)
