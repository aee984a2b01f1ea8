"""The first wrong result is that of the third linear: third_linear.py ROWS"""

import sys

import jsonl

rows = jsonl.read(sys.argv[1])
wrong = [r for r in rows if r["verdict"] == "wrong"]
print(wrong[:2])
first = wrong[0]
assert first["op"] == "torch.nn.functional.linear" and first["role"] == "output"
assert [r for r in rows if r["op"] == first["op"] and r["role"] == "output"].index(first) == 2
