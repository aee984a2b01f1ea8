"""The events of workloads/threads.py: no op of a thread is missing or on another thread. thread_ops.py EVENTS ROUNDS"""

import collections
import sys

import jsonl


def check(events, rounds):
    by_id = {e["id"]: e for e in events}
    owner, count = {}, collections.Counter()
    for e in events:
        assert not e["parent"] or by_id[e["parent"]]["tid"] == e["tid"], e
        if e["op"] == "aten::add.Tensor":
            number = e["args"][2]["value"]
            assert owner.setdefault(e["tid"], number) == number, e
            assert e["args"][0]["shape"] == [number + 1] == e["results"][0]["shape"], e
            count[number] += 1
        if e["op"] == "aten::linear":
            assert e["results"][0]["shape"] == [1, 3], e
    assert dict(count) == {n: rounds for n in range(4)}, count


check(jsonl.read(sys.argv[1]), int(sys.argv[2]))
