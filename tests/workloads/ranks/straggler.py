"""Ranks train together, and one of them holds the others up: python3 launch.py straggler.py KIND RANK STORE, a file that is not there
yet. KIND: work (it multiplies more, at one line), loader (its data come late, from a worker), loading (and without one), collective
(it comes late for one of three collectives of a step), core (it shares its processor with others), quota (it is in the control group in
the folder GROUP, which has one), none. Ends with the loss."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = 60
LATE = 0.04

kind, slow = sys.argv[1], int(sys.argv[2])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
is_slow = rank == slow


class Data(Dataset):
    def __len__(self):
        return STEPS * 8

    def __getitem__(self, i):
        if is_slow and kind in ("loader", "loading"):
            time.sleep(LATE / 8)
        return torch.full((64,), i / 1000)


def planted(x):
    end = time.monotonic() + LATE
    while time.monotonic() < end:
        x @ x


def of_all(x):
    for _ in range(6):
        x @ x


def reduce_all(counts):
    for i, count in enumerate(counts):
        if is_slow and kind == "collective" and i == 1:
            time.sleep(LATE)
        dist.all_reduce(count)


def train(model, optimizer, loader):
    small = torch.full((256, 256), 1 / 256)
    counts = [torch.zeros(4) for _ in range(3)]
    for x in loader:
        if is_slow and kind == "work":
            planted(small)
        if kind in ("core", "quota"):
            of_all(small)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        reduce_all(counts)
    return loss.item().hex()


def share_processor():
    """Of each processor that a rank has, the slow one's has other programs, too."""
    cpus = sorted(os.sched_getaffinity(0))
    mine = cpus[rank % len(cpus)]
    busy = []
    for _ in range(6 if is_slow else 0):
        busy.append(os.fork())
        if not busy[-1]:
            os.sched_setaffinity(0, {mine})
            while True:
                pass
    os.sched_setaffinity(0, {mine})
    return busy


def use_up_quota():
    with open(os.environ["GROUP"] + "/cgroup.procs", "w") as f:
        f.write(str(os.getpid()))


if is_slow and kind == "quota":
    use_up_quota()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8))
dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=size)
busy = share_processor() if kind == "core" else []
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss = train(model, optimizer, DataLoader(Data(), batch_size=8, num_workers=kind == "loader"))
for pid in busy:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
if rank == 0:
    print("loss", loss, flush=True)
dist.barrier()
dist.destroy_process_group()
