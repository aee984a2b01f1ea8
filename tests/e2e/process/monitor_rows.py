"""A Python expression that holds for each row of monitor's CSV: monitor_rows.py CSV PID EXPRESSION. It may use the
columns by name (numbers, or None if empty), all rows as `rows`, and `pid`."""

import csv
import sys

path, pid, expression = sys.argv[1:]
with open(path, encoding="utf-8") as f:
    rows = [{k: float(v) if v else None for k, v in r.items()} for r in csv.DictReader(f)]
assert rows and all(eval(expression, {"pid": int(pid), "rows": rows, **r}) for r in rows), rows
