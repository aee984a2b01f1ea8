#!/usr/bin/env python3
"""The training of train.py among others: eight threads that run operators, one of which throws all the
time, one that collects garbage, and data from the workers of a DataLoader. Until SIGTERM; the losses do
not depend on the others. Each pauses at times, which leaves the processor to who looks at it."""

import gc
import os
import signal
import threading

import torch
import torch.utils.data

import train

told = threading.Event()


class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self):
        n = 0
        while True:
            yield torch.full((2,), n)
            n += 1


def compute():
    x = torch.ones(8, 8)
    while not told.wait(0.003):
        torch.nn.functional.linear(x, x).relu().sum()


def throw():
    while not told.wait(0.003):
        try:
            torch.ones(3) + torch.ones(4)
        except RuntimeError:
            pass


def collect():
    while not told.wait(0.01):
        gc.collect()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = iter(torch.utils.data.DataLoader(Numbers(), num_workers=2, generator=torch.Generator()))
    next(data)
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    threads = [threading.Thread(target=f) for f in 7 * [compute] + [throw, collect]]
    model = train.LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    print("pid", os.getpid(), flush=True)
    for t in threads:
        t.start()
    step = 0
    while not told.wait(0.02):
        next(data)
        print(step, train.train_step(model, optimizer).hex(), flush=True)
        step += 1
    for t in threads:
        t.join()


if __name__ == "__main__":
    main()
