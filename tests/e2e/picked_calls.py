#!/usr/bin/env python3
"""The numbers that calls in a capture tree tell, as picks.py and ways_to_add.py call them: picked_calls.py TREE [OP...].
With OPs, by op. Reads the files of torch.save as the zips that they are: PyTorch would have to be started each time."""

import glob
import struct
import sys
import zipfile


def number(path):
    with zipfile.ZipFile(path) as z:
        storage = next(n for n in z.namelist() if n.endswith("/data/0"))
        return int(struct.unpack("<f", z.read(storage)[:4])[0])


files = glob.glob(sys.argv[1] + "/op_tools_results/op_capture_results/*/*/*/*/input.pth")
calls = sorted((f.split("/")[-5].removeprefix("torch."), number(f)) for f in files)
for op in sys.argv[2:]:
    if [o for o, _ in calls if o == op]:
        print(op, *(n for o, n in calls if o == op), end=";")
if not sys.argv[2:]:
    print(*sorted(n for _, n in calls))
