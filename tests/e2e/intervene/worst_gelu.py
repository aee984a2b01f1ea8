"""The CSV of --compare has the worst wrong call of gelu, with its number, and no other wrong call: worst_gelu.py
forward|backward CSV PRINTED"""

import csv
import sys

COLUMNS = "forward_id name allclose max_abs_diff max_relative_diff atol rtol error_info".split()
PART = {"forward": "output", "backward": "grad[0]"}

fault, path, printed = sys.argv[1:]
with open(path, encoding="utf-8") as f:
    rows = list(csv.DictReader(f))
assert list(rows[0])[:8] == COLUMNS, rows[0]
wrong = [r for r in rows if r["verdict"] == "wrong"]
assert [r["name"] for r in wrong] == ["torch.nn.functional.gelu " + PART[fault]], wrong
w = wrong[0]
assert w["allclose"] == "False" and float(w["max_abs_diff"]) > 1e-4 and w["atol"] == "1e-05", w
assert "biased" in w["error_info"], w
with open(printed, encoding="utf-8") as f:
    assert f"/autocompare/{w['forward_id']}/" in f.read(), w
