"""diff --all --format json of two equal trainings: the same rows, with the same numbers of calls: equal_runs.py ROWS"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    rows = [r for r in json.load(f)["rows"] if not (r["file"] or "").endswith("at_word.py")]
assert len(rows) > 50, len(rows)
for r in rows:
    assert r["before"]["calls"] == r["after"]["calls"] and r["before"]["shape"] == r["after"]["shape"], r
    assert r["verdict"] in ("same", "few", "slower", "faster"), r
