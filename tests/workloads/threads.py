#!/usr/bin/env python3
"""Several threads that run operators at the same time, each with a number of its own in every one."""

import sys
import threading

import torch

THREADS, ROUNDS = 4, int(sys.argv[1]) if len(sys.argv) > 1 else 200


def work(number):
    for i in range(ROUNDS):
        x = torch.full((number + 1,), number)
        torch.add(x, x, alpha=number)
        torch.nn.functional.linear(torch.ones(1, 4), torch.full((3, 4), float(number)))


torch.set_num_threads(1)
workers = [threading.Thread(target=work, args=(n,), name=f"worker {n}") for n in range(THREADS)]
for w in workers:
    w.start()
for w in workers:
    w.join()
print("done", THREADS * ROUNDS)
