"""Three functions, each with one op on one line, take 50, 30 and 20 % of the program's time on a processor:
which of them runs next follows from what they have had so far. At the end it says what they have had, on a
processor and by the clock. shares.py SECONDS [threads]"""
import sys
import threading
import time

import torch

torch.set_num_threads(1)
# Each is long beside what a call costs outside of its op, and has no other one within.
a = torch.randn(768, 768)
b = torch.rand(1_000_000)
WANTED = {"first": 0.5, "second": 0.3, "third": 0.2}


def first():
    torch.mm(a, a)  # mark: first


def second():
    torch.lgamma(b)  # mark: second


def third():
    torch.digamma(b)  # mark: third


def work(seconds, had, wall):
    run = {"first": first, "second": second, "third": third}
    begin = now = time.thread_time()
    clock = time.monotonic()
    while now - begin < seconds:
        name = min(WANTED, key=lambda n: had[n] / WANTED[n])
        run[name]()
        last, now = now, time.thread_time()
        before, clock = clock, time.monotonic()
        had[name] += now - last
        wall[name] += clock - before


def shares(title, of):
    total = sum(of.values())
    print(title, *(f"{name} {100 * of[name] / total:.1f}" for name in WANTED), flush=True)


had = dict.fromkeys(WANTED, 0.0)
wall = dict.fromkeys(WANTED, 0.0)
seconds = float(sys.argv[1])
print("ready", flush=True)
if len(sys.argv) > 2:
    threads = [threading.Thread(target=work, args=(seconds, had, wall)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
else:
    work(seconds, had, wall)
shares("cpu", had)
shares("wall", wall)
