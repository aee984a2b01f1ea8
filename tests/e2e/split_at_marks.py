#!/usr/bin/env python3
"""split_at_marks.py EVENTS.jsonl PREFIX NAME...: the events of each program that tests/workloads/in_turn.py has run
go to PREFIX.NAME.jsonl."""

import json
import sys

MARK = 98765.0


def is_mark(event):
    return event["op"] == "aten::full" and event["args"][1].get("value") == MARK


path, prefix, *names = sys.argv[1:]
with open(path) as f:
    lines = [(json.loads(line), line) for line in f]
marks = sorted((e["start_ns"], e["end_ns"]) for e, _ in lines if is_mark(e))
if len(marks) < len(names) - 1:  # a program that execs is the last one, with no mark
    sys.exit(f"{len(marks)} marks for {len(names)} programs")
begin = 0
for name, (end, next_begin) in zip(names, marks + [(float("inf"), 0)]):
    with open(f"{prefix}.{name}.jsonl", "w") as f:
        f.writelines(line for e, line in lines if begin <= e["start_ns"] < end)
    begin = next_begin
