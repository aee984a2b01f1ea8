"""memory.py PROFILED REPORT: what each op allocated, less what it freed, is what PyTorch's profiler says; the peak is held by the
line that allocates most."""

import collections
import json
import sys

profiled, report = (json.load(open(f)) for f in sys.argv[1:])
ours, with_called, overloads = collections.Counter(), collections.Counter(), collections.defaultdict(set)
for r in report["rows"]:
    ours[(r["op"] or "").split(".")[0]] += r["alloc_bytes"] - r["freed_bytes"]
    assert r["alloc_bytes"] - r["freed_bytes"] == r["self_memory_bytes"]
    overloads[(r["op"] or "").split(".")[0]].add(r["op"])
    with_called[(r["op"] or "").split(".")[0]] += r["memory_bytes"]
# Names that are no op's: ranges of its own, and "[memory]"; and nodes free what the evaluation of a node does for the profiler.
ops = {op for op in set(ours) | set(profiled) if op.startswith("aten::")}
assert len(ops) > 8, ops
different = {op: (ours[op], profiled.get(op)) for op in ops if ours[op] != profiled.get(op, (0, 0))[0]}
# The profiler knows no overloads, of which one may call another.
alone = {op for op in ops if len(overloads[op]) == 1}
assert {"aten::linear", "aten::relu", "aten::randn", "aten::zeros"} <= alone, alone
different |= {op: (with_called[op], profiled.get(op)) for op in alone if with_called[op] != profiled.get(op, (0, 0))[1]}
assert not different, different
summary = report["summary"]
assert not summary["memory_lost"] and not summary["memory_unknown"], summary
most = max(report["rows"], key=lambda r: r["peak_bytes"])
assert most["peak_bytes"] >= 8 << 20, most

# Of each device apart, as its allocator says.
devices = {m["device"]: (m["peak_bytes"], m["reserved_bytes"]) for m in summary["memory"]}
assert devices.pop("cpu")[0] == sum(r["peak_bytes"] for r in report["rows"]), devices
MIB = 1 << 20
assert devices == {
    "cuda:0": (5 * MIB, 22 * MIB),
    "cuda:1": (3 * MIB, 8 * MIB),
    "privateuseone:0": (512, 2 * MIB),
}, devices
assert sum(r["device_alloc_bytes"] for r in report["rows"]) == 8 * MIB + 512
assert sum(r["device_freed_bytes"] for r in report["rows"]) == 4 * MIB
