#!/usr/bin/env python3
"""The numbers passed to the calls in a capture tree by picks.py and ways_to_add.py: picked_calls.py TREE [OP...]. With
OPs, grouped by op."""

import glob
import sys

from storages import storages

files = glob.glob(sys.argv[1] + "/op_tools_results/op_capture_results/*/*/*/*/input.pth")
calls = sorted((f.split("/")[-5].removeprefix("torch."), int(storages(f)[0][0])) for f in files)
for op in sys.argv[2:]:
    if [o for o, _ in calls if o == op]:
        print(op, *(n for o, n in calls if o == op), end=";")
if not sys.argv[2:]:
    print(*sorted(n for _, n in calls))
