"""The events between the last two marks of tests/workloads/observer.py: between_marks.py EVENTS"""

import json
import re
import sys

at, events = {}, []
with open(sys.argv[1], encoding="utf-8") as f:
    for line in f:
        events.append((int(re.search('"start_ns":([0-9]+)', line)[1]), line))
        if '"op":"aten::full"' in line:
            e = json.loads(line)
            at[e["args"][1]["value"]] = e
first, last = at[12345.0]["end_ns"], at[54321.0]["start_ns"]
sys.stdout.writelines(line for start, line in events if first < start < last)
