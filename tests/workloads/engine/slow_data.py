"""Trains on a DataLoader whose data come slowly, a step in a block of record_function: slow_data.py WORKERS. Prints the
share of the time of its whole steps, all but the first, that it waits for them, in per cent."""

import os
import sys
import time

import torch
import torch.utils.data

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import eager  # noqa: E402, F401


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        time.sleep(0.4)
        return torch.full((), float(i))


torch.set_num_threads(1)
model = torch.nn.Linear(1, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = iter(torch.utils.data.DataLoader(Slow(), batch_size=1, num_workers=int(sys.argv[1])))
waits, ends = [], []
for _ in range(6):
    asked = time.perf_counter()
    x = next(data)
    waits.append(time.perf_counter() - asked)
    with torch.profiler.record_function("train"):
        model(x.float()[:, None]).sum().backward()
    optimizer.step()
    ends.append(time.perf_counter())
    optimizer.zero_grad()
print(f"waits {100 * sum(waits[1:]) / (ends[-1] - ends[0]):.0f}")
