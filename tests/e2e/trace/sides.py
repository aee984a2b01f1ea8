"""report --side-by-side --format json, on standard input, has the calls and times of all backward nodes: sides.py
EVENTS"""

import collections
import json
import sys

import jsonl

rows = json.load(sys.stdin)["rows"]
events = jsonl.read(sys.argv[1])
nodes = [e for e in events if e["op"].startswith("torch::autograd::") or "::" not in e["op"]]
assert nodes and sum(r["backward_calls"] for r in rows) == len(nodes)
assert sum(r["backward_ns"] for r in rows) == sum(e["end_ns"] - e["start_ns"] for e in nodes)
names = {e["id"]: e["op"] for e in events}
wanted = collections.Counter(names.get(e["forward_id"], e["op"]) for e in nodes)
seen = collections.Counter()
for r in rows:
    seen[r["op"]] += r["backward_calls"]
assert +seen == wanted, (seen, wanted)
