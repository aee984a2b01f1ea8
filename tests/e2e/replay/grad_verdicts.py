"""The verdicts on the gradients of each call, one line per call: grad_verdicts.py ROWS"""

import sys

import jsonl

seen = {}
for r in jsonl.read(sys.argv[1]):
    if r["role"] == "grad":
        seen.setdefault(r["id"], []).append(r["index"] + " " + r["verdict"])
for n in sorted(seen):
    print(n, ", ".join(sorted(seen[n])))
