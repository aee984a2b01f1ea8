"""The events of workloads/run/many.py: the op of each process occurs once, with its line: one_each.py EVENTS PROCESSES
"""

import sys

import jsonl

events = jsonl.read(sys.argv[1])
calls = [(e["args"][1]["value"], e["pid"]) for e in events if e["op"] == "aten::full"]
wanted = list(range(int(sys.argv[2]) + 1))
seen = sorted(value for value, _ in calls)
print("missing", set(wanted) - set(seen), len(calls), "calls", len({pid for _, pid in calls}), "processes")
assert seen == wanted and all(e["stack"][0]["function"] for e in events)
