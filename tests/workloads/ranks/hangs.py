"""Hangs of three ranks, planted: python3 hangs.py FOLDER. For each line of the input, the name of one, three processes hang so,
and have written "KIND PID..." to the output before. At the next line they are killed; the last one is "end"."""

import os
import signal
import sys
import threading

import torch
import torch.distributed as dist

RANKS = 3


def pause():
    signal.pause()


def ask(x, group=None):
    dist.all_reduce(x, group=group)


def skips(rank, groups):
    """After what two of them alone have numbered."""
    if rank == 0:
        dist.send(torch.ones(1), 2)
    if rank == 2:
        dist.recv(torch.ones(1), 0)
    if rank == 1:
        pause()
    ask(torch.ones(4))


def locked(rank, groups):
    """Rank 1 waits for itself."""
    if rank == 1:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    ask(torch.ones(4))


def kinds(rank, groups):
    x = torch.ones(4)
    if rank == 1:
        dist.broadcast(x, 0)
    ask(x)


def shapes(rank, groups):
    if rank == 2:
        pause()
    dist.broadcast(torch.ones(4 + rank), 2)


def dtypes(rank, groups):
    if rank == 2:
        pause()
    dist.broadcast(torch.ones(4, dtype=[torch.float32, torch.int64][rank]), 2)


def order(rank, groups):
    for g in groups if rank == 0 else reversed(groups):
        ask(torch.ones(2, 2), g)


def pending(rank, groups):
    """Rank 0 has called one, and waits for something else."""
    if rank == 0:
        work = dist.all_reduce(torch.ones(4), async_op=True)  # noqa: F841: keeps it
    pause()


def killed(rank, groups):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        ask(torch.ones(4))
    except RuntimeError:
        pause()


def begin(store, kind, rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    for _ in range(3):
        ask(torch.ones(1))
    if rank < 2 or kind != "order":
        globals()[kind](rank, groups)
    pause()


def start(kind, store):
    pids = []
    for rank in range(RANKS):
        pids.append(os.fork())
        if not pids[-1]:
            begin(store, kind, rank)
    print(kind, *pids, flush=True)
    return pids


def end(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


pids = []
for n, line in enumerate(sys.stdin):
    end(pids)
    if line == "end\n":
        break
    pids = start(line.strip(), f"{sys.argv[1]}/{n}")
