#!/usr/bin/env python3
"""Operators while signals come: timers, children that end, a fault that is handled. Prints what must not
depend on being traced."""

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import time

import torch

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
seen = {signal.SIGALRM: 0, signal.SIGPROF: 0, signal.SIGCHLD: 0}


def count(number, _):
    seen[number] += 1


for number in seen:
    signal.signal(number, count)
    signal.siginterrupt(number, False)
torch.set_num_threads(1)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
signal.setitimer(signal.ITIMER_PROF, 0.002, 0.002)
x = torch.arange(16.0).reshape(4, 4)
for i in range(ROUNDS):
    for _ in range(20):
        x = (x @ x).softmax(-1) + i
    subprocess.run(["/bin/sh", "-c", "sleep 0.01"], check=True)
    end = time.monotonic() + 0.01
    time.sleep(0.01)
    assert time.monotonic() >= end
    read, write = os.pipe()
    if os.fork() == 0:
        time.sleep(0.01)
        os.write(write, b"x")
        os._exit(0)
    assert os.read(read, 1) == b"x"
    os.wait()
    os.close(read), os.close(write)
signal.setitimer(signal.ITIMER_REAL, 0)
signal.setitimer(signal.ITIMER_PROF, 0)
print("sum", float(x.double().sum()).hex(), "signals", all(seen.values()), flush=True)
# A fault in a child: its handler runs, and it ends by the signal.
pid = os.fork()
if pid == 0:
    faulthandler.enable(open(os.devnull, "w"))
    ctypes.string_at(16)
print("child ended by", os.WTERMSIG(os.waitpid(pid, 0)[1]))
