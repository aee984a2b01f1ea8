#!/usr/bin/env python3
"""Checks the source lines in ditrace's events of tests/workloads/events/lines.py.

    compare_lines.py EVENTS.jsonl LINES.py

Every event with a mark among its arguments, or as the first size of one, must show the marked line, in the function that holds it,
at columns of that function's code; every backward node must point to the op that made it; and the
marks of a line with a comment "#:" must be seen in the phases that it says. To be run by the Python that ran the workload, since lines and columns are compared with its own compiler's.
"""

import collections
import dis
import json
import os
import sys

LINE, LIMIT = 0x10000, 0x20000
MIN_LINES = 74  # the number of marked lines in lines.py, at least
BACKWARD_FUNCTIONS = ("backward", "inner_op")


def marks(event):
    for value in event["args"]:
        for v in (value.get("value"), *value.get("shape", ())[:1]):
            if type(v) is int and LINE < v < LIMIT:
                yield v - LINE


def where(stack):
    """The innermost frame outside torch's own files."""
    return next((f for f in stack if "/torch/" not in f["file"]), None)


def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_consts"):
            yield from codes(constant)


def calls_of(code, text):
    """(line, column, end_column) of the calls in a code object; columns are None before 3.11."""
    if not hasattr(code, "co_positions"):
        yield from ((line, None, None) for _, line in dis.findlinestarts(code))
        return
    for line, end_line, column, end_column in code.co_positions():
        if line and (line != end_line or text[line - 1].encode()[column:end_column].endswith(b")")):
            yield line, column, end_column


def positions_of(path):
    """(function, line) -> the (column, end_column) of the calls there"""
    with open(path) as f:
        source = f.read()
    places = collections.defaultdict(set)
    for code in codes(compile(source, path, "exec")):
        for line, column, end_column in calls_of(code, source.splitlines()):
            for name in {code.co_name, getattr(code, "co_qualname", code.co_name)}:
                places[name, line].add((column, end_column))
    return places


def expected_of(path):
    """line -> (phases, function in whose backward its Python code runs), of the comments"""
    expected = {}
    with open(path) as f:
        for number, line in enumerate(f, 1):
            _, comment, words = line.partition("  #: ")
            phases, _, function = words.strip().partition(" of ")
            if comment:
                expected[number] = set(phases.split()), function or None
    return expected


class Checker:
    def __init__(self, path):
        self.path, self.places, self.bad = path, positions_of(path), []
        self.expected, self.phases = expected_of(path), collections.defaultdict(set)
        self.good, self.lines = 0, set()

    def wrong(self, event, text):
        self.bad.append(f"{event['op']} (id {event['id']}): {text}")

    def check(self, event, mark):
        frame = where(event["stack"])
        if not frame:
            return self.wrong(event, f"no frame outside torch, expected line {mark}")
        if frame["line"] != mark:
            return self.wrong(event, f"line {frame['line']} of {frame['file']}, expected {mark}")
        if frame["file"].startswith("<"):
            self.good += 1
            return None
        if os.path.basename(frame["file"]) != os.path.basename(self.path):
            return self.wrong(event, f"file {frame['file']}")
        columns = self.places.get((frame["function"], mark))
        if columns is None:
            return self.wrong(event, f"line {mark} is not in function {frame['function']}")
        seen = frame.get("column"), frame.get("end_column")
        if sys.version_info >= (3, 11) and seen not in columns:
            return self.wrong(event, f"columns {seen} of line {mark}, expected one of {columns}")
        self.good += 1
        self.lines.add(mark)
        return None

    def check_phase(self, event, mark):
        """With the line in whose backward the op runs, if Python code calls it there."""
        self.phases[mark].add(event["phase"])
        phases, wanted = self.expected.get(mark, ((), None))
        if event["phase"] == "forward" or (event["phase"] == "backward" and "forward" in phases):
            wanted = None
        of = where(event["backward_of"])
        if (of or {}).get("function") != wanted:
            self.wrong(event, f"line {mark} is in the backward of {of}, expected {wanted}")

    def check_phases(self):
        for line, (phases, _) in self.expected.items():
            if self.phases[line] != phases:
                self.bad.append(f"line {line} was seen in phases {self.phases[line]}, expected {phases}")

    def check_nodes(self, events):
        """A node is at the line of its forward op; that of an op of the engine itself, in no node, is not known."""
        by_id = {e["id"]: e for e in events}
        for node in events:
            made_by = by_id.get(node["forward_id"])
            if "::" in node["op"] or not made_by or (made_by["phase"], made_by["parent"]) == ("backward", None):
                continue
            if where(node["stack"]) != where(made_by["stack"]):
                self.wrong(node, f"its stack {node['stack'][:1]} is not that of {made_by['op']}")

    def check_slices(self, events):
        """Of the node of a write into a view, too, and of what it calls."""
        by_id = {e["id"]: e for e in events}
        nodes = [e for e in events if e["op"] == "torch::autograd::CopySlices"]
        made = [by_id.get(e["forward_id"], {"op": "none", "stack": []}) for e in nodes]
        if [m["op"] for m in made] != ["aten::copy_", "aten::add_.Tensor", "aten::copy_"]:
            self.bad.append(f"CopySlices were made by {[m['op'] for m in made]}")
        for node in nodes:
            inside = [e for e in events if node["id"] in (e["id"], e["parent"])]
            for e in inside:
                if where(e["stack"]) != where(by_id.get(node["forward_id"], {"stack": []})["stack"]):
                    self.wrong(e, f"its stack {e['stack'][:1]} is not that of the write")

    def check_reductions(self, events):
        """Behind a node the engine sums and converts what it returned."""
        seen = collections.Counter(e["op"] for e in events if e["phase"] == "backward" and e["forward_id"] for _ in marks(e))
        if seen["aten::sum.dim_IntList"] < 7 or not seen["aten::to.dtype"]:
            self.bad.append(f"seen of the engine's work: {seen}")

    def check_backward(self, events):
        by_id = {e["id"]: e for e in events}
        forward = [
            m
            for e in events
            for m in marks(e)
            if e["phase"] == "forward" and not list(marks(by_id.get(e["parent"], {"args": []})))
            if (where(e["stack"]) or {}).get("function") in BACKWARD_FUNCTIONS
        ]
        nodes = [e for e in events if e["phase"] == "backward" and "::" not in e["op"] and not e["op"].startswith("Sum")]
        seen = []
        for node in nodes:
            made_by = by_id.get(node["forward_id"])
            seen.append(next(marks(made_by), None) if made_by else None)
            if (where(node["stack"]) or {}).get("line") != seen[-1]:
                self.wrong(node, f"its stack {node['stack'][:1]} is not the one of its forward op")
        if not nodes or seen != forward[::-1]:
            names = [n["op"] for n in nodes]
            self.bad.append(f"backward nodes {names} point to lines {seen}, expected {forward[::-1]}")


def first_of_backward(events):
    """The id of the op with which the section in_backward begins."""
    return next(e["id"] for e in events if any(v.get("value") == 7777 or {"kind": "int", "value": 7777} in v.get("items", [])
                                               for v in e["args"]))


def main():
    with open(sys.argv[1]) as f:
        events = [json.loads(line) for line in f]
    checker = Checker(sys.argv[2])
    for event in events:
        for mark in marks(event):
            checker.check(event, mark)
            checker.check_phase(event, mark)
    checker.check_phases()
    checker.check_nodes(events)
    checker.check_slices(events)
    checker.check_reductions(events)
    first = first_of_backward(events)
    checker.check_backward([e for e in events if e["id"] < first])
    for text in checker.bad[:30]:
        print("#", text)
    print(f"# {checker.good} marks right on {len(checker.lines)} lines, {len(checker.bad)} wrong")
    return 1 if checker.bad or len(checker.lines) < MIN_LINES else 0


if __name__ == "__main__":
    sys.exit(main())
