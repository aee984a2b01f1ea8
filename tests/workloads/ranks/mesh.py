"""Four ranks as a mesh of two by two, with a group for each row and each column; rank 2 comes late each time.
RANKS=4 python3 launch.py mesh.py STORE, a file that is not there yet."""

import os
import sys
import time

import torch
import torch.distributed as dist

STEPS = 40
rank = int(os.environ["RANK"])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=4)
rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
x = torch.ones(100)


def slow():
    if rank == 2:
        time.sleep(0.03)
    x.sinh_()


for _ in range(STEPS):
    slow()
    dist.all_reduce(x, group=rows[rank // 2])
    x.cosh()
    dist.all_reduce(x, group=columns[rank % 2])
    x.fill_(1)
if rank >= 2:
    dist.broadcast(x, 3, group=rows[1])
dist.barrier()
dist.destroy_process_group()
