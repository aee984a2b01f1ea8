"""Two ranks train together with gloo; rank 1 does what the other one waits for, rank 0 has a worker that loads its data. Then
come collectives that each rank writes down, in STORE.0 and STORE.1, and some for which rank 1 is late.
python3 launch.py ddp.py STORE, a file that is not there yet. With another one, STOP, they train until that is there; then
rank 0, whose worker waits for work, waits for rank 1, which does not come."""

import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

STEPS = 5
LATE = 40

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
    if rank == 0:
        loads = iter(DataLoader(data, batch_size=1, num_workers=1))
    print("trains", flush=True)
    while not stop:
        step(torch.ones(1, 8))
        stop += rank == 1 and os.path.exists(path)
        dist.all_reduce(stop)
    if rank == 1:
        print("stops", flush=True)
        signal.pause()


def exchange(other):
    """Each kind, on two groups; what they are, in order: kind, bytes, number of the group."""
    calls = []

    def of(kind, x=None, group=0):
        calls.append([kind, None if x is None else x.numel() * x.element_size(), group])
        return x

    four, parts = torch.ones(4), [torch.ones(4) for _ in range(2)]
    dist.all_reduce(of("allreduce", four))
    work = dist.all_reduce(of("allreduce", four, 1), op=dist.ReduceOp.MAX, group=other, async_op=True)
    began = time.monotonic_ns()
    work.wait()
    waited = time.monotonic_ns() - began
    dist.broadcast(of("broadcast", torch.ones(3, dtype=torch.int64)), 1)
    dist.all_gather(parts, of("allgather", four))
    dist.reduce(of("reduce", torch.ones(2, 3)), 0)
    dist.gather(of("gather", four), parts if rank == 0 else None, 0)
    dist.scatter(of("scatter", four, 1), parts if rank == 0 else None, 0, group=other)
    if rank == 0:
        dist.send(of("send", four[:2]), 1)
    else:
        dist.recv(of("recv", four[:2]), 0)
    of("barrier", None, 1)
    dist.barrier(other)
    dist.all_reduce(of("allreduce", torch.ones(5, dtype=torch.float64)))
    dist.all_to_all_single(torch.empty(6, dtype=torch.int32), of("alltoall", torch.ones(6, dtype=torch.int32), 1), group=other)
    of("allreduce_coalesced", torch.ones(7))
    dist.all_reduce_coalesced([torch.ones(4), torch.ones(3)], op=dist.ReduceOp.PRODUCT)
    of("allgather_coalesced", torch.ones(5))
    dist.all_gather_coalesced([[torch.empty(2), torch.empty(3)] for _ in range(2)], [torch.ones(2), torch.ones(3)])
    of("monitored_barrier")
    dist.monitored_barrier()
    if rank == 1:
        dist.send(of("send", four), 0)
    else:
        dist.recv(of("recv", four))
    with open(f"{sys.argv[1]}.{rank}", "w") as f:
        json.dump({"pid": os.getpid(), "calls": calls, "waited_ns": waited}, f)


def late(other):
    x = torch.zeros(2)
    for _ in range(LATE):
        if rank == 1:
            time.sleep(0.03)
        x.sinh_()
        dist.all_reduce(x, group=other)


if len(sys.argv) > 2:
    until(sys.argv[2])
for x in DataLoader(data, batch_size=1, num_workers=1 if rank == 0 else 0):
    step(x)
total = torch.full((4,), float(rank + 1))
dist.all_reduce(total)
dist.broadcast(total, 1)
dist.barrier()
other = dist.new_group([0, 1])
exchange(other)
late(other)
if rank == 0:
    print("total", total.tolist())
dist.destroy_process_group()
