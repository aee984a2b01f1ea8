"""The CSV of export has ditorch's columns, with times, and each forward_id once: csv_columns.py FILE"""

import csv
import sys

WANTED = "name forward_id forward_elapsed backward_elapsed unit input output grad_inputs grad_outputs phase".split()

with open(sys.argv[1], encoding="utf-8") as f:
    rows = list(csv.DictReader(f))
assert list(rows[0]) == WANTED, list(rows[0])
linear = [r for r in rows if "addmm" in r["name"]]
assert linear and all(float(r["forward_elapsed"]) > 0 for r in linear), linear[:3]
assert any(r["backward_elapsed"] and float(r["backward_elapsed"]) > 0 for r in linear), linear[:3]
ids = [r["forward_id"] for r in rows if r["forward_id"]]
assert ids and len(set(ids)) == len(ids)
