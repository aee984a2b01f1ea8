"""Collectives of a process alone: c10d calls each op by a handle inlined into its own function. FILE as an argument: barriers until
that is there, the calls, and a sudden end."""

import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
t = torch.ones(3)
print(os.getpid(), flush=True)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    dist.barrier()
    time.sleep(0.05)
for _ in range(5):
    dist.all_reduce(t)
for _ in range(3):
    dist.broadcast(t, 0)
if len(sys.argv) > 1:
    os._exit(0)
dist.barrier()
dist.destroy_process_group()
