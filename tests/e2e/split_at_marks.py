#!/usr/bin/env python3
"""split_at_marks.py EVENTS.jsonl PREFIX NAME...: write the events of each program that tests/workloads/in_turn.py ran
to PREFIX.NAME.jsonl."""

import json
import re
import sys

MARK = 98765.0
START = re.compile(r'"start_ns":(\d+),')


def is_mark(event):
    return event["op"] == "aten::full" and event["args"][1].get("value") == MARK


path, prefix, *names = sys.argv[1:]
with open(path) as f:
    lines = [(int(START.search(line)[1]), line) for line in f]  # parsing all of them takes seconds
events = [json.loads(line) for _, line in lines if '"op":"aten::full"' in line]
marks = sorted((e["start_ns"], e["end_ns"]) for e in events if is_mark(e))
if len(marks) < len(names) - 1:  # a program that execs is the last one, and has no mark
    sys.exit(f"{len(marks)} marks for {len(names)} programs")
begin = 0
for name, (end, next_begin) in zip(names, marks + [(float("inf"), 0)]):
    with open(f"{prefix}.{name}.jsonl", "w") as f:
        f.writelines(line for start, line in lines if begin <= start < end)
    begin = next_begin
