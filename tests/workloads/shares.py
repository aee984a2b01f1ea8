"""Three functions, each with one op on one line, take 50, 30 and 20 % of the program's time on a processor:
which of them runs next follows from what they have had so far. shares.py SECONDS [threads]"""
import sys
import threading
import time

import torch

torch.set_num_threads(1)
a = torch.randn(512, 512)
b = torch.rand(200_000)
c = torch.rand(3_000_000)
WANTED = {"first": 0.5, "second": 0.3, "third": 0.2}


def first():
    for _ in range(2):
        torch.mm(a, a)  # mark: first


def second():
    for _ in range(2):
        torch.sort(b)  # mark: second


def third():
    for _ in range(2):
        torch.cumsum(c, 0)  # mark: third


def work(seconds, had):
    run = {"first": first, "second": second, "third": third}
    for f in run.values():
        f()
    begin = now = time.thread_time()
    while now - begin < seconds:
        name = min(WANTED, key=lambda n: had[n] / WANTED[n])
        run[name]()
        last, now = now, time.thread_time()
        had[name] += now - last


had = {name: 0.0 for name in WANTED}
seconds = float(sys.argv[1])
print("ready", flush=True)
if len(sys.argv) > 2:
    threads = [threading.Thread(target=work, args=(seconds, had)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
else:
    work(seconds, had)
total = sum(had.values())
print(*(f"{name} {100 * had[name] / total:.1f}" for name in WANTED), flush=True)
