"""python3 in_order.py EVENTS: JSON lines of two processes or more, in the order of their starts, no two with one id."""

import sys

import jsonl

events = list(jsonl.read(sys.argv[1]))
starts = [e["start_ns"] for e in events]
assert starts == sorted(starts)
assert len({e["id"] for e in events}) == len(events)
ids = {(e["pid"], e["id"]) for e in events}
assert all(not e["parent"] or (e["pid"], e["parent"]) in ids for e in events)
assert len({e["pid"] for e in events}) >= 2
