"""Waits for a DataLoader whose workers wait until there is a file, and prints the sum of its data: waits_for_workers.py
FILE. Around libtorch_cpu no memory is free."""

import os
import sys
import time

import torch
import torch.utils.data

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import little_room  # noqa: E402


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.05)
        return torch.full((2,), i)


torch.set_num_threads(1)
little_room.fill(0)
print("ready", flush=True)
print("sum", sum(int(x.sum()) for x in torch.utils.data.DataLoader(Slow(), num_workers=2)), flush=True)
