"""The ops that have statistics: measured_ops.py EVENTS"""

import sys

import jsonl

events = jsonl.read(sys.argv[1])
ops = {e["id"]: e["op"] for e in events if "op" in e}
print(*sorted({ops[e["stats_of"]] for e in events if "stats_of" in e}))
