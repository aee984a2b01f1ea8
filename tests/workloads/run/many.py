"""Many short-lived processes, a few at a time: many.py N. Each does one op, full with its number."""

import os
import sys

import torch

AT_ONCE = 4


def child(i):
    pid = os.fork()
    if pid:
        return pid
    torch.full((2,), i)
    os._exit(0)


n = int(sys.argv[1])
torch.full((2,), n)
for first in range(0, n, AT_ONCE):
    pids = [child(i) for i in range(first, min(first + AT_ONCE, n))]
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
print("done")
