"""annotate --format json, on standard input, has the times and calls of report --group line,phase --format csv, and the time in
no op of report --gaps --format csv; and the op of a line has the shapes of report --group op,line,phase,shape --format csv:
annotated.py ROWS GAPS SHAPES"""

import collections
import csv
import json
import sys


def sums(path, key, value):
    found = collections.Counter()
    with open(path, encoding="utf-8") as f:
        for r in csv.DictReader(f):
            if r["file"]:
                found[key(r)] += int(r[value])
    return +found


lines = [(f["file"], line) for f in json.load(sys.stdin)["files"] for line in f["lines"]]


def seen(field):
    return +collections.Counter({(file, str(line["line"])): line[field] for file, line in lines})


def place(r):
    return r["file"], r["line"]


assert len(lines) > 3 and len({(file, line["line"]) for file, line in lines}) == len(lines)
assert seen("calls") == sums(sys.argv[1], place, "calls")
assert seen("no_op_ns") == sums(sys.argv[2], place, "total_ns")
times = sums(sys.argv[1], lambda r: (*place(r), r["phase"] == "forward"), "self_ns")
for forward, field in (True, "forward_ns"), (False, "backward_ns"):
    wanted = collections.Counter({k[:2]: n for k, n in times.items() if k[2] == forward})
    assert seen(field) == wanted, (field, seen(field) - wanted, wanted - seen(field))
shapes = collections.defaultdict(set)
with open(sys.argv[3], encoding="utf-8") as f:
    for r in csv.DictReader(f):
        shapes[(*place(r), r["op"], r["phase"] == "forward")].add(r["shape"])
for file, line in lines:
    if line["calls"]:
        at = file, str(line["line"]), line["op"]
        of_op = shapes.get((*at, True)) or shapes[(*at, False)]
        assert line["shapes"] in of_op and line["other_shapes"] == len(of_op) - 1, (line, of_op)
