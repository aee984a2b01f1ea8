"""The shares of the three lines of workloads/sample/shares.py, and of the op on each, match those that it reports:
op_shares.py CLOCK REPORT SAID SOURCE"""

import json
import sys

from said import near, said

OPS = {"first": "aten::mm", "second": "aten::lgamma", "third": "aten::digamma"}

clock, report, out, source = sys.argv[1:]
wanted = said(out, clock)
with open(source, encoding="utf-8") as f:
    lines = {s.split("# mark: ")[1].strip(): n for n, s in enumerate(f, 1) if "# mark: " in s}
with open(report, encoding="utf-8") as f:
    rows = json.load(f)["rows"]
key = "weight" if "weight" in rows[0] else "self_ns"
here = [r for r in rows if (r["file"] or "").endswith("shares.py")]
by_line = {m: sum(r[key] for r in here if r["line"] == n) for m, n in lines.items()}
by_op = {m: sum(r[key] for r in rows if r["op"] == OPS[m]) for m in lines}
good = [near(what, {m: wanted[m] for m in lines}, 2) for what in (by_line, by_op)]
sys.exit(not all(good))
