#!/usr/bin/env python3
"""Says its pid and waits; for each line that it is given it trains five steps, the same each time, between
the marks of observer.py, and prints the losses. With "threads N", so many threads wait beside it."""

import os
import sys
import threading

import torch

import observer
import train


def work():
    torch.manual_seed(0)
    model = train.LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with observer.region():
        return [train.train_step(model, optimizer).hex() for _ in range(5)]


torch.set_num_threads(1)
for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 0):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
print("pid", os.getpid(), flush=True)
for line in sys.stdin:
    print(line.strip(), *work(), flush=True)
