"""A rank that trains with DistributedDataParallel for as long as it is told to: ddp_rank.py STORE MODE TIMES. MODE is a file with
a word, looked at in each iteration: plain, profile (under torch.profiler), end. Rank 0 writes to TIMES, a line for each iteration:
mode, begin, end (CLOCK_MONOTONIC ns)."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

MODES = ["plain", "profile", "end"]
store, mode_file, times = sys.argv[1:]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
layers = [layer for _ in range(12) for layer in (torch.nn.Linear(128, 128), torch.nn.ReLU())]
model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.25)
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(32, 128)


def told():
    mode = torch.zeros(1, dtype=torch.int64)
    if rank == 0:
        with open(mode_file) as f:
            mode += MODES.index(f.read().strip())
    dist.broadcast(mode, 0)
    return MODES[mode]


def step():
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


profiler, now = None, "plain"
with open(times if rank == 0 else os.devnull, "w") as out:
    while (mode := told()) != "end":
        if profiler and mode != now:
            profiler.__exit__(None, None, None)
            profiler = None
        elif mode == "profile" and not profiler:
            profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True)
            profiler.__enter__()
        now = mode
        begin = time.monotonic_ns()
        step()
        print(mode, begin, time.monotonic_ns(), file=out, flush=True)
dist.destroy_process_group()
