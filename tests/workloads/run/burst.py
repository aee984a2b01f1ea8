"""burst.py FILE N: calls relu until there is such a file, then neg N times, as fast as it goes."""

import os
import sys
import time

import torch

x = torch.ones(2)
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    x.relu()
    time.sleep(0.01)
for _ in range(int(sys.argv[2])):
    x.neg()
print("done", flush=True)
