"""parameter_columns.py EVENTS JSON CSV DATABASE: as many accumulations by parameter in report --format json and csv and in SQLite
as in the events; none has a file, and nothing else has a parameter."""
import collections
import contextlib
import csv
import json
import sqlite3
import sys

wanted = collections.Counter()
with open(sys.argv[1], encoding="utf-8") as f:
    for e in map(json.loads, f):
        if e["parameter"]:
            wanted[e["op"], e["parameter"]] += 1
assert len([op for op, _ in wanted if op.endswith("AccumulateGrad")]) >= 24, wanted


def check(rows, calls):
    shown = collections.Counter()
    for r in rows:
        assert not (r["parameter"] and (r["file"] or r["line"] or r["function"])), r
        if r["parameter"]:
            shown[r["op"], r["parameter"]] += int(r[calls])
    assert shown == wanted, (shown - wanted, wanted - shown)


with open(sys.argv[2], encoding="utf-8") as f:
    check(json.load(f)["rows"], "calls")
with open(sys.argv[3], encoding="utf-8") as f:
    check(csv.DictReader(f), "calls")
with contextlib.closing(sqlite3.connect(sys.argv[4])) as db:
    db.row_factory = sqlite3.Row
    check(db.execute("SELECT *, 1 AS calls FROM calls"), "calls")
