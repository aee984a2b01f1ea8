"""The non-negative values that aten::full was called with, and the number of processes: fills.py EVENTS"""

import sys

import jsonl

calls = [(e["args"][1]["value"], e["pid"]) for e in jsonl.read(sys.argv[1]) if e["op"] == "aten::full"]
calls = [(value, pid) for value, pid in calls if value >= 0]
print(sorted(value for value, _ in calls), len({pid for _, pid in calls}))
