"""The events between the two marks of tests/workloads/observer.py: between_marks.py EVENTS"""

import json
import sys

import jsonl

events = jsonl.read(sys.argv[1])
at = {e["args"][1]["value"]: e for e in events if e["op"] == "aten::full"}
first, last = at[12345.0]["end_ns"], at[54321.0]["start_ns"]
print(*(json.dumps(e) for e in events if first < e["start_ns"] < last), sep="\n")
