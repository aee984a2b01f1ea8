"""The thread, the fork and the program that workloads/sample/born.py reports to have started have samples: born.py
REPORT SAID"""

import json
import sys

with open(sys.argv[2], encoding="utf-8") as f:
    thread, *processes = map(int, next(s for s in f if s.startswith("made")).split()[1:])
with open(sys.argv[1], encoding="utf-8") as f:
    rows = [r for r in json.load(f)["rows"] if r["samples"] > 20]
print(rows, thread, processes)
sys.exit(thread not in {r["tid"] for r in rows} or not set(processes) <= {r["pid"] for r in rows})
