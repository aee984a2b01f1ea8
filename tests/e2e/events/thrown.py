"""The events of workloads/throws.py: each op that threw is marked, and has no results. thrown.py EVENTS COUNT"""

import collections
import sys

import jsonl

WANTED = ["aten::add.Tensor", "aten::linear", "aten::view", "aten::cat", "aten::mm", "aten::layer_norm"]


def check(events, n):
    thrown, passed = collections.Counter(), 0
    for e in events:
        thrown[e["op"], e["depth"]] += e["thrown"]
        passed += not e["thrown"]
        assert not (e["thrown"] and e["results"]), e
    seen = {op: thrown[op, 0] for op in WANTED}
    print("# thrown:", seen, "passed:", passed)
    assert all(v == n // len(WANTED) for v in seen.values()) and passed >= n


check(jsonl.read(sys.argv[1]), int(sys.argv[2]))
