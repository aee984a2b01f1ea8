"""Standard input: events of turns.py, one a line. All whole steps are the same, and so is how ops lie in each other."""

import collections
import json
import sys

steps, of = [], {}
for event in map(json.loads, sys.stdin):
    of[event["id"]] = event
for event in sorted(of.values(), key=lambda e: e["id"]):
    if event["op"].startswith("aten::arange"):
        steps += [[]] if not event["depth"] else []
    up = of.get(event["parent"])
    assert (event["depth"] == 0) == (event["parent"] is None), f"of unknown parent: {event}"
    assert event["depth"] == 0 or up["depth"] == event["depth"] - 1, event
    if steps:
        steps[-1].append((event["op"], event["phase"], event["depth"], up and up["op"], event["thrown"]))
kinds = collections.Counter(tuple(sorted(map(repr, s))) for s in steps[1:-1])
assert len(kinds) == 1 and sum(kinds.values()) > 3, [(n, len(k)) for k, n in kinds.items()]
