"""page.py FOLDER: whether FOLDER/page.html, of export --to html, has the numbers of FOLDER/report.json and the stacks of
FOLDER/folded, and the timelines of its steps the ops of FOLDER/events and the blocks of FOLDER/db; whether it may load nothing, and what it could be made to run."""

import collections
import contextlib
import json
import os
import re
import sqlite3
import sys

from jsonl import shown

folder = sys.argv[1]


def read(name):
    with open(os.path.join(folder, name), encoding="utf-8", errors="strict") as f:
        return f.read()


page = read("page.html")
assert len(page.encode()) <= 5_000_000
assert "default-src 'none'; script-src 'sha256-" in page
scripts = re.findall(r"<script[^>]*>", page)
assert scripts == ['<script type="text/plain" id="licences">', '<script type="application/json" id="data">', "<script>"], scripts
text = page.split('id="data">', 1)[1].split("</script>", 1)[0]
assert "<" not in text
data, report = json.loads(text), json.loads(read("report.json"))
assert data["report"] == report
names = data["names"]


def stacks(tree):
    paths, out, calls = [], collections.Counter(), 0
    for parent, name, kind, self_ns, n in zip(tree["parent"], tree["name"], tree["kind"], tree["self_ns"], tree["calls"]):
        paths.append((paths[parent] if parent >= 0 else ()) + (names[name],))
        calls += n if kind else 0
        if self_ns:
            out[paths[-1]] += self_ns
    assert not any(tree["folded"]) and not tree["outside"]
    return out, calls


folded = {tuple(stack.split(";")): int(ns) for stack, ns in re.findall(r"(.+) (\d+)\n", read("folded"))}
ran, calls = stacks(data["flames"]["ran"])
assert ran == folded
assert calls == sum(r["calls"] for r in report["rows"])
beside, calls_beside = stacks(data["flames"]["beside"])
assert calls_beside == calls and sum(beside.values()) == sum(ran.values())
nodes = [s for s in beside if any("Backward" in n for n in s)]
assert any("train_step" in n for s in nodes for n in s), "a backward node stands below the lines of its forward"

events = sorted(map(json.loads, read("events").splitlines()), key=lambda e: e["start_ns"])
events = [e for e in events if not e["op"].startswith("profiler::_record_function")]
for e in events:
    e["op"] = shown(e["op"])
steps = {b[0]: b for b in data["steps"]["bars"]}
with contextlib.closing(sqlite3.connect(os.path.join(folder, "db"))) as db:
    (origin,) = db.execute("SELECT value FROM meta WHERE key = 'origin_ns'").fetchone()
    blocks = [(name, start - origin, end - origin, tid) for name, start, end, tid in db.execute("SELECT name, start_ns, end_ns, tid FROM blocks")]
BLOCK = 6
assert report["summary"]["steps"]["count"] == data["steps"]["count"] == len(steps) > 0
assert {w["step"] for w in data["whole"]} == set(steps)
for w in data["whole"]:
    ops = collections.Counter(names[n] for n, kind in zip(w["name"], w["kind"]) if 0 < kind < BLOCK)
    number, start, length, count = steps[w["step"]][:4]
    assert ops.total() == count == w["ops"] and length == w["length_ns"] and not w["left_out"]
    at, drawn = 0, []
    for delta, ns, kind, name, thread in zip(w["start"], w["ns"], w["kind"], w["name"], w["thread"]):
        at += delta
        if kind == BLOCK:
            assert len(data["threads"][thread]) == 4
            drawn.append((names[name], start + at, start + at + ns, data["threads"][thread][1]))
        else:
            assert 0 <= at < length and (not kind or at + ns <= length), (at, ns)
    assert drawn and sorted(drawn) == sorted(b for b in blocks if b[1] < start + length and b[2] > start), drawn
    first = min(n for n, e in enumerate(events) if e["op"] in ops)
    assert any(collections.Counter(e["op"] for e in events[i : i + count]) == ops for i in range(first, len(events) - count + 1))
assert {r["text"] for r in data["lines"]["rows"] if r["text"]} >= {r["text"] for r in report["rows"] if r["text"]}
