"""Runs, until SIGTERM, ops in code objects that are named after the files given, each of which may be another's.
names_files.py FILE..."""

import os
import signal
import sys
import time

import torch

going = True


def stop(*_):
    global going
    going = False


def named(path):
    where = {}
    exec(compile("def run(x): x.relu()\n", path, "exec"), where)
    return where["run"]


signal.signal(signal.SIGTERM, stop)
torch.set_num_threads(1)
x = torch.ones(2, 2)
runs = [named(path) for path in sys.argv[1:]]
print("pid", os.getpid(), flush=True)
while going:
    for run in runs:
        run(x)
    time.sleep(0.001)
