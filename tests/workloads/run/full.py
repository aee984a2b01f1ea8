"""full.py FILE N: calls relu until there is such a file, then on three threads N rounds of ops, as fast as it goes: some in
others, some that throw, some called by code that lives for one call. Prints when half is done, and for each op how often it
was called."""

import collections
import os
import sys
import threading
import time

import torch

CODE = "def call(x):\n    return torch.floor(x)\ncall(x)"
rounds, calls = int(sys.argv[2]), collections.Counter()
lock = threading.Lock()


def work():
    x, w = torch.ones(1, 2), torch.ones(2, 2, requires_grad=True)
    mine = collections.Counter()
    for i in range(rounds):
        if i == rounds // 2:
            print("half", flush=True)
        x.neg()
        torch.nn.functional.linear(x, w)
        mine.update(("aten::neg", "aten::linear"))
        if i % 4 == 0:
            try:
                torch.bmm(x, x)
            except RuntimeError:
                mine["aten::bmm"] += 1
        if i % 20 == 0:
            exec(CODE, {"x": x, "torch": torch})
            torch.nn.functional.linear(x, w).sum().backward()
            mine.update(("aten::floor", "aten::linear", "aten::sum"))
    with lock:
        calls.update(mine)


torch.set_num_threads(1)
x = torch.ones(2)
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    x.relu()
    time.sleep(0.01)
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(*(f"{op}={n}" for op, n in sorted(calls.items())), flush=True)
print("done", flush=True)
