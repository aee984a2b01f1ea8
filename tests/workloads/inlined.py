"""Collectives of a process alone: c10d calls each op by a handle inlined into its own function."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
t = torch.ones(3)
for _ in range(5):
    dist.all_reduce(t)
for _ in range(3):
    dist.broadcast(t, 0)
dist.barrier()
dist.destroy_process_group()
