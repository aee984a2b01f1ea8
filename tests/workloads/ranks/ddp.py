"""Two ranks train together with gloo; rank 1 does what the other one waits for, rank 0 has a worker that loads its data.
python3 launch.py ddp.py STORE, a file that is not there yet. With another one, STOP, they train until that is there; then
rank 0 waits for rank 1, which does not come."""

import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

STEPS = 5

rank = int(os.environ["RANK"])
torch.manual_seed(rank)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
model = DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = [torch.ones(8) for _ in range(STEPS)]


def step(x):
    if rank == 1:
        torch.cosh(x)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def until(path):
    stop = torch.zeros(1)
    print("trains", flush=True)
    while not stop:
        step(torch.ones(1, 8))
        stop += rank == 1 and os.path.exists(path)
        dist.all_reduce(stop)
    if rank == 1:
        print("stops", flush=True)
        signal.pause()


if len(sys.argv) > 2:
    until(sys.argv[2])
for x in DataLoader(data, batch_size=1, num_workers=1 if rank == 0 else 0):
    step(x)
total = torch.full((4,), float(rank + 1))
dist.all_reduce(total)
dist.broadcast(total, 1)
dist.barrier()
if rank == 0:
    print("total", total.tolist())
dist.destroy_process_group()
