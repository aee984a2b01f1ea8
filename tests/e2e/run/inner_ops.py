"""The events are of ops inside others, and keep the ids of these although they were left out: inner_ops.py EVENTS"""

import sys

import jsonl

events = jsonl.read(sys.argv[1])
ids = {e["id"] for e in events}
assert len(events) > 20 and all(e["depth"] and e["parent"] < e["id"] for e in events)
assert any(e["parent"] not in ids for e in events)
