"""memory_graph.py REPORT BY_OP CALLEES CALLERS PAGE: whether the call graphs and the page have the memory of the report."""

import json
import sys

report, by_op, callees, callers = (json.load(open(f, encoding="utf-8")) for f in sys.argv[1:5])
KEYS = "alloc_bytes", "freed_bytes", "device_alloc_bytes", "device_freed_bytes"


def memory(rows):
    return [sum(r[key] for r in rows) for key in KEYS]


def check(node):
    below = memory(node["children"])
    assert all(b <= n for b, n in zip(below, memory([node]))), node
    for child in node["children"]:
        check(child)


def all_of(nodes):
    for n in nodes:
        yield n
        yield from all_of(n["children"])


assert min(memory(report["rows"])) > 0
assert memory(callees) == memory(report["rows"]), (memory(callees), memory(report["rows"]))
for node in callees:
    check(node)
ops = {r["op"]: memory([r]) for r in by_op["rows"] if r["op"] and any(memory([r]))}
roots = {n["name"]: memory([n]) for n in callers if n["kind"] == "op" and any(memory([n]))}
assert roots == ops and "(in no op)" in ops, (roots, ops)
# Where an op is called by another, its memory is below that.
zeros = next(n for n in all_of(callees) if n["name"] == "aten::zeros")
assert zeros["alloc_bytes"] == 8 << 20 and any(n["name"].startswith("aten::empty") and n["alloc_bytes"] == 8 << 20 for n in all_of(zeros["children"]))

with open(sys.argv[5], encoding="utf-8") as f:
    data = json.loads(f.read().split('id="data">', 1)[1].split("</script>", 1)[0])
assert data["report"]["rows"] == report["rows"] and data["report"]["summary"]["memory"] == report["summary"]["memory"]
assert memory(data["lines"]["rows"]) == memory(report["rows"])
