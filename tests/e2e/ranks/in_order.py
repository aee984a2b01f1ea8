"""python3 in_order.py EVENTS: JSON lines of ranks that train in step: as they ran, so in turns, and no two with one id."""

import sys

import jsonl

events = list(jsonl.read(sys.argv[1]))
pids = [e["pid"] for e in events]
turns = sum(a != b for a, b in zip(pids, pids[1:]))
assert len(set(pids)) >= 2
assert turns > 2 * len(set(pids)), f"only {turns} turns"
assert len({e["id"] for e in events}) == len(events)
for pid in set(pids):
    ids = [e["id"] for e in events if e["pid"] == pid]
    assert ids == sorted(ids)
ids = {(e["pid"], e["id"]) for e in events}
assert all(not e["parent"] or (e["pid"], e["parent"]) in ids for e in events)
