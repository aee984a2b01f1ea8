#!/usr/bin/env python3
"""between_ops.py FILE: calls few ops, each at a line of its own, and between them runs Python, or sleeps once FILE.waits
is there. When FILE.stands is there, it stands still in a deep Python stack."""

import os
import sys
import time

import torch

DEPTH = 30


def ops(x):
    x = torch.relu(x)
    torch.relu(x[:8])  # mark: half
    return torch.sigmoid(x)


def first(depth):
    second(depth)


def second(depth):
    # A line that is wider than the widest terminal of the tests, to see where it is cut: 80, 120 or 200 columns.
    return third(depth), "..................................................................", "............................................................", "......................................"


def third(depth):
    if depth:
        first(depth - 1)
    time.sleep(36000)


def main():
    go = sys.argv[1]
    torch.set_num_threads(1)
    x = torch.ones(16, 16)
    print("pid", os.getpid(), flush=True)
    while not os.path.exists(go + ".stands"):
        ops(x)
        if not os.path.exists(go + ".waits"):
            sum(range(2_000_000))
        else:
            time.sleep(0.03)
    first(DEPTH)


main()
