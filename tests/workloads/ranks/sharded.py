"""Two ranks train two layers with fully_shard, and then two as DTensors: python3 launch.py sharded.py STORE. Ends with the losses,
or with "none" where PyTorch has no fully_shard."""

import os
import sys

import torch
import torch.distributed as dist

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
except ImportError:
    if os.environ["RANK"] == "0":
        print("none")
    sys.exit()

STEPS = 3

rank = int(os.environ["RANK"])
torch.manual_seed(0)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss = model(torch.ones(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item().hex()


sharded = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
for layer in sharded[:2]:
    fully_shard(layer, mesh=mesh)
fully_shard(sharded, mesh=mesh)
parallel = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8))
parallelize_module(parallel, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
losses = train(sharded), train(parallel)
if rank == 0:
    print("losses", *losses)
dist.destroy_process_group()
