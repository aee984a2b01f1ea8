"""Blocks of record_function under torch.profiler: nested, crossing, begun and ended by different threads, of a DataLoader,
the optimizer and the profiler. Prints for each of its own when it began and ended, from outside and from inside
(CLOCK_MONOTONIC ns), and how many of each name the profiler has."""

import os
import sys
import threading
import time

import torch
import torch.utils.data
from torch.profiler import ProfilerActivity, profile, record_function

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import eager  # noqa: E402, F401

now = time.monotonic_ns


def begin(name):
    block = record_function(name)
    before = now()
    block.__enter__()
    return block, name, before, now()


def end(block, name, before, entered):
    left = now()
    block.__exit__(None, None, None)
    print("block", name, before, entered, left, now())


torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader(torch.ones(3, 4))
schedule = torch.profiler.schedule(wait=0, warmup=0, active=100)
with profile(activities=[ProfilerActivity.CPU], schedule=schedule) as profiler:
    for x in loader:
        outer = begin("outer")
        inner = begin("inner")
        model(x).sum().backward()
        end(*inner)
        end(*outer)
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()
    first, second = begin("first"), begin("second")
    torch.ones(2)
    end(*first)
    end(*second)
    handed = begin("handed")
    other = threading.Thread(target=end, args=handed)
    other.start()
    other.join()
    again = [begin("again") for _ in range(2)]
    for block in reversed(again):
        end(*block)
    begin("open")
counts = {}
for e in profiler.events():
    counts[e.name] = counts.get(e.name, 0) + 1
for name, n in counts.items():
    print("profiler", n, name)
if sys.argv[1:]:
    profiler.export_chrome_trace(sys.argv[1])
