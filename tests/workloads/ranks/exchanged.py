"""Ranks give each other numbers, with gloo: RANKS=N python3 launch.py exchanged.py STORE [FAULT], STORE being a file that is not there
yet. With FAULT "noise" one number that the last rank trains with in the second step is another one."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

NEW = torch.__version__ >= "2"
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
fault = sys.argv[2] if len(sys.argv) > 2 else ""
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size)
Op = dist.ReduceOp


def data(n=300, dtype=torch.float32):
    if dtype in (torch.int64, torch.uint8):
        return torch.randint(-(2**62) if dtype == torch.int64 else 0, 2**62 if dtype == torch.int64 else 255, (n,), dtype=dtype)
    return (torch.randn(n) * 10 ** torch.empty(n).uniform_(-3, 3)).to(dtype)


def reductions():
    torch.manual_seed(rank)
    for dtype in [torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8] + [torch.bfloat16] * NEW:
        for op in (Op.SUM, Op.MAX, Op.MIN, Op.PRODUCT)[: 4 if dtype in (torch.float32, torch.float16) else 2]:
            x = data(dtype=dtype)
            work = dist.all_reduce(x, op=op, async_op=True)
            work.wait()
            x.zero_()  # what is captured later is wrong
    dist.reduce(data(), size - 1)


def moves():
    x = [torch.zeros(5) for _ in range(size)]
    dist.all_gather(x, data(5))
    dist.broadcast(data(7), 1)
    dist.scatter(x[0], [data(5) for _ in range(size)] if rank == 0 else None, 0)
    dist.gather(data(5), x if rank == 0 else None, 0)
    dist.all_to_all_single(torch.zeros(2 * size), data(2 * size))
    if NEW:
        dist.reduce_scatter_tensor(torch.zeros(4), data(4 * size))
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(data(), group=pair)


def train():
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(40, 40) for _ in range(4)]), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for step in range(3):
        x = torch.randn(3, 40)
        x[0, 0] += 1e-3 * (fault == "noise" and step == 1 and rank == size - 1)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    print("sum", sum(float(p.detach().double().sum()) for p in model.parameters()), flush=True)


reductions()
moves()
train()
dist.barrier()
dist.destroy_process_group()
