"""What a trace of tests/workloads/intervene/device.py has while functions are changed: recorded.py fallback|compare EVENTS.
fallback: of one step with linear on the CPU. compare: of three with all functions compared."""

import json
import sys

how, path = sys.argv[1:]
with open(path, encoding="utf-8") as f:
    events = [json.loads(line) for line in f]
calls = [e for e in events if "stack" in e]


def tensors(e):
    return [v for v in e["args"] + e["results"] if v.get("kind") == "tensor"]


def lines(op):
    """Of the program, where the forward calls it."""
    return [next(f for f in e["stack"] if f["file"].endswith("/device.py"))["line"] for e in calls
            if e["op"] == op and e["phase"] == "forward"]


with open(next(f["file"] for f in calls[-1]["stack"] if f["file"].endswith("/device.py")), encoding="utf-8") as f:
    source = f.read().splitlines()
others = [f["file"] for e in calls for f in e["stack"] if f["file"].startswith("ditrace/") and e["phase"] == "forward"]
assert not others, others
if how == "fallback":
    found = lines("aten::linear")
    assert len(found) == 2 and all("F.linear" in source[n - 1] for n in found), found
    assert all(t["device"] == "cpu" for e in calls if e["op"] == "aten::linear" for t in tensors(e)), "not on the CPU"
    copies = [n for n in lines("aten::_to_copy") if "F.linear" in source[n - 1]]
    assert not copies, copies
else:
    found = [source[n - 1].strip() for n in lines("aten::gelu")]  # the device dispatches it anew; the planted kernel calls it, too
    assert found.count("h = F.gelu(h)") == 6 and len(found) == 9, found
    assert len([e for e in calls if e["op"] == "aten::native_layer_norm" and e["phase"] == "forward"]) >= 3
    wide = [e["op"] for e in calls for t in tensors(e) if t["dtype"] == "float64" and t["shape"]]  # numbers are, too
    assert not wide, wide
