#!/usr/bin/env python3
"""Says its pid and waits; for each line that it is given it trains two steps, the same each time, between
the marks of observer.py, and prints the line's first word and the losses. The line "threads N" first starts so many
threads that wait beside it, "ops N" so many that run operators; "always" is the last one, and is done again and again
until SIGTERM. With an argument, so many bytes, at most, are free in a piece around libtorch_cpu."""

import os
import signal
import sys
import threading
import time

import torch

import little_room
import observer
import train

told = []


def work():
    torch.manual_seed(0)
    model = train.LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with observer.region():
        return [train.train_step(model, optimizer).hex() for _ in range(2)]


def run_ops():
    x = torch.ones(8, 8)
    while not told:
        torch.nn.functional.linear(x, x).relu().sum()
        time.sleep(0.002)


def lines():
    for line in sys.stdin:
        yield line.split()
        while line == "always\n" and not told:
            time.sleep(0.05)  # else it takes the processor from what looks at it
            yield line.split()
        if told:
            return


signal.signal(signal.SIGTERM, lambda *_: told.append(True))
torch.set_num_threads(1)
if len(sys.argv) > 1:
    little_room.fill(int(sys.argv[1]))
print("pid", os.getpid(), flush=True)
for name, *number in lines():
    if number:
        beside = run_ops if name == "ops" else threading.Event().wait
        for _ in range(int(*number)):
            threading.Thread(target=beside, daemon=True).start()
    print(name, *work(), flush=True)
if told:
    print("ended well")
