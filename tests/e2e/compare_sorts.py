"""compare_sorts.py TRACE [--samples]: report sorts by each key, groups by each and by many together, and has each
column; the rows add up to the same each time."""
import collections
import contextlib
import csv
import functools
import io
import itertools
import json
import os
import subprocess
import sys

NUMBERS = {"self": "self_ns", "total": "total_ns", "calls": "calls", "mean": "mean_ns", "p50": "p50_ns", "p99": "p99_ns",
           "max": "max_ns", "min": "min_ns", "thrown": "thrown", "self_percent": "self_ns", "total_percent": "total_ns"}
WORDS = ["op", "line", "file", "function", "thread", "module", "shape", "dtype", "device", "phase"]
samples = "--samples" in sys.argv
if samples:
    NUMBERS = {"overhead": "weight", "samples": "samples"}
    WORDS.append("symbol")


def report(*options):
    return subprocess.run([os.environ["DITRACE"], "report", *sys.argv[1:], *options], check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout


@functools.cache
def rows(*options):
    return json.loads(report("--format", "json", *options))["rows"]


def value(row, key):
    """The value that rows are sorted by, according to the manual."""
    if key in ("line", "file"):
        return (row["file"] or "").encode(), row.get("line") or 0
    if key == "thread":
        return row["pid"], row["tid"]
    if key == "phase":
        return row["phase"] == "backward"
    return (row[key] or "").encode()


def identity(row, key):
    """What identifies a row."""
    words = {"line": ("file", "line", "parameter"), "function": ("file", "function"), "thread": ("pid", "tid"), "symbol": ("symbol", "object")}
    return tuple(row[k] for k in words.get(key, (key,)))


def parts(of):
    """The forward part and then the backward one, if phases are separate rows."""
    return [list(part) for _, part in itertools.groupby(of, key=lambda r: r.get("phase"))]


def amounts(of):
    return [sum(r[k] for r in of) for k in (("samples", "weight") if samples else ("calls", "self_ns"))]


def cell(v):
    """As it stands in CSV: before text that a spreadsheet would compute, a line of source such as @property, there is a '."""
    if isinstance(v, bool):
        return str(v).lower()
    if not isinstance(v, str):
        return "" if v is None else str(v)
    with contextlib.suppress(ValueError):
        float(v)
        return v
    return "'" * (len(v) > 1 and v[0] in "=+-@") + v


whole = amounts(rows())
for key, field in NUMBERS.items():
    for part in parts(rows("--sort", key)):
        seen = [r[field] for r in part]
        assert seen == sorted(seen, reverse=True), key
for key in WORDS:
    of = rows("--group", key, "--sort", key)
    seen = [value(r, key) for r in of]
    assert seen == sorted(seen) and amounts(of) == whole, (key, seen[:9], amounts(of), whole)
    table = report("--group", key, "--columns", "where" if key == "line" else key, "--pager=never")
    assert of and (samples or "in no op" in table), table
for two in itertools.combinations(WORDS, 2):
    of = rows("--group", ",".join(two))
    assert amounts(of) == whole, (two, amounts(of), whole)
    for key in two:
        one = collections.Counter()
        for r in of:
            one[identity(r, key)] += r["weight" if samples else "self_ns"]
        wanted = {identity(r, key): r["weight" if samples else "self_ns"] for r in rows("--group", key)}
        assert one == wanted, (two, key)
of = rows("--group", ",".join(WORDS))
assert amounts(of) == whole
table = list(csv.DictReader(io.StringIO(report("--format", "csv", "--group", ",".join(WORDS)))))
assert [{k: cell(v) for k, v in r.items() if "percent" not in k} for r in of] == \
    [{k: v for k, v in r.items() if "percent" not in k} for r in table]
