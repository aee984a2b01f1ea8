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
    return +collections.Counter({at(file, line): line[field] for file, line in lines})


def at(file, line):
    return file, str(line["line"]), str(line["worker"]).lower()


def place(r):
    return r["file"], r["line"], r["worker"]


assert len(lines) > 3 and len({at(*line) for line in lines}) == len(lines)
assert seen("calls") == sums(sys.argv[1], place, "calls")
assert seen("no_op_ns") == sums(sys.argv[2], place, "total_ns")
times = sums(sys.argv[1], lambda r: (*place(r), r["phase"] == "forward"), "self_ns")
for forward, field in (True, "forward_ns"), (False, "backward_ns"):
    wanted = collections.Counter({k[:-1]: n for k, n in times.items() if k[-1] == forward})
    assert seen(field) == wanted, (field, seen(field) - wanted, wanted - seen(field))
shapes = collections.defaultdict(set)
with open(sys.argv[3], encoding="utf-8") as f:
    for r in csv.DictReader(f):
        shapes[(*place(r), r["op"], r["phase"] == "forward")].add(r["shape"])
for file, line in lines:
    if line["calls"]:
        op = (*at(file, line), line["op"])
        of_op = shapes.get((*op, True)) or shapes[(*op, False)]
        assert line["shapes"] in of_op and line["other_shapes"] == len(of_op) - 1, (line, of_op)
