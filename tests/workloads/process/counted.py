"""20,000 operators as soon as there is a file, and no others: counted.py FILE"""

import os
import sys
import time

import torch

x = torch.zeros(4)
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
for _ in range(20000):
    x.add_(x)
print("done", flush=True)
time.sleep(36000)
