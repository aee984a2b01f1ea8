"""diff --format json of steps.py with 32 and with 512 rows, on standard input: the product comes first (on a busy machine
its times may vary too much to be called slower), ops only in the second are new, and times match the report of the
second: slowed.py REPORT"""

import json
import sys

rows = json.load(sys.stdin)["rows"]
first = rows[0]
assert first["op"] == "aten::mm" and first["verdict"] in ("slower+shape", "shape"), first
assert first["before"]["shape"] == "[32,256] [256,256]" and first["after"]["shape"] == "[512,256] [256,256]", first
assert first["before"]["calls"] == first["after"]["calls"] == 200, first
new = [r["op"] for r in rows if r["verdict"] == "new"]
assert new == ["aten::sigmoid"], new
with open(sys.argv[1], encoding="utf-8") as f:
    report = {r["op"]: r["total_ns"] for r in json.load(f)["rows"]}
assert {r["op"]: r["after"]["total_ns"] for r in rows} == report
