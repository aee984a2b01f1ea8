"""python3 collectives.py CALLS STORE: the collectives that ditrace script printed as JSON are those that each rank wrote down in
STORE.RANK, in order, and are numbered in their groups without a gap."""

import json
import sys

import jsonl

seen = list(jsonl.read(sys.argv[1]))
for rank in range(2):
    with open(f"{sys.argv[2]}.{rank}") as f:
        told = json.load(f)
    own = [c for c in seen if c["pid"] == told["pid"]]
    assert {c["rank"] for c in own} == {rank}
    calls = [c for c in own if c["function"] == "exchange"]
    of_group = [c["group"] if c["number"] else group for c, (_, _, group) in zip(calls, told["calls"])]
    assert [[c["collective"], c["bytes"], g] for c, g in zip(calls, of_group)] == told["calls"], calls
    for group in range(2):
        numbers = [c["number"] for c in own if c["group"] == group]
        assert numbers == list(range(1, len(numbers) + 1)), numbers
    assert [c["collective"] for c in own if c["number"] is None] == (["recv", "send"] if rank else ["send", "recv"])
    assert [c["reduce_op"] for c in calls if c["collective"][:9] == "allreduce"] == ["SUM", "MAX", "SUM", "PRODUCT"]
    assert [c["root"] for c in calls if c["root"] is not None] == [1, 0, 0, 0, 0 if rank else 1] + [0] * rank
    told_async = [c["async"] for c in calls if c["collective"] == "allreduce"]
    assert told_async in ([None] * 3, [False, True, False]), told_async
    assert all(c["group_size"] == 2 and c["end_ns"] >= c["start_ns"] for c in own)
    assert len([c for c in own if c["function"] == "late"]) == 40
    working = [c for c in own if c["collective"] != "monitored_barrier"]  # which has no Work
    assert {c["backend"] for c in working} == {"gloo"}
    # Gloo does not say of these when they are done; DDP does not wait for a Work.
    assert all((c["done_ns"] is None) == (c["collective"] in ("send", "recv")) for c in working)
    assert all(c["done_ns"] > c["start_ns"] for c in own if c["done_ns"])
    assert all(c["waited_ns"] is not None for c in calls if c in working)
    told_wait = next(c for c in calls if c["reduce_op"] == "MAX")
    assert 0 <= told_wait["waited_ns"] <= told["waited_ns"], (told_wait, told["waited_ns"])
