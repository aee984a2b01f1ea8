"""diff --all --format json of two equal trainings: the same rows, with the same numbers of calls; and of each the steps of its
report: equal_runs.py ROWS REPORT REPORT"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    found = json.load(f)
rows = [r for r in found["rows"] if not (r["file"] or "").endswith("at_word.py")]
for path, side in zip(sys.argv[2:], ("before", "after"), strict=True):
    with open(path, encoding="utf-8") as f:
        steps = json.load(f)["summary"]["steps"]
    assert (steps["count"], steps["median_ns"]) == (found["summary"][side]["steps"], found["summary"][side]["step_median_ns"]), (steps, found["summary"])
assert len(rows) > 50, len(rows)
for r in rows:
    assert r["before"]["calls"] == r["after"]["calls"] and r["before"]["shape"] == r["after"]["shape"], r
    assert r["verdict"] in ("same", "few", "slower", "faster"), r
