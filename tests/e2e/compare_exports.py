"""compare_exports.py FOLDER: whether FOLDER/events (script --format jsonl), report.json, csv, chrome, folded,
speedscope and db, all of one trace, agree event by event, and are accepted by their readers. FOLDER/activities (script --only
activities), if there is one, has what devices did."""
import collections
import csv
import json
import os
import re
import sqlite3
import sys

import chrome_trace
from jsonl import shown

folder = sys.argv[1]


def no_constant(word):
    raise ValueError("not JSON: " + word)


def read_json(name):
    with open(os.path.join(folder, name), encoding="utf-8", errors="strict") as f:
        return json.load(f, parse_constant=no_constant)


with open(os.path.join(folder, "events"), encoding="utf-8") as f:
    recorded = [json.loads(line) for line in f]
marks = [e for e in recorded if e["op"].startswith("profiler::_record_function")]
events = {e["id"]: e for e in recorded if e not in marks}
activities = []
if os.path.exists(os.path.join(folder, "activities")):
    with open(os.path.join(folder, "activities"), encoding="utf-8") as f:
        activities = list(map(json.loads, f))
DEVICE_CATEGORIES = {"kernel": "kernel", "copy": "gpu_memcpy", "set": "gpu_memset"}
children = collections.Counter()
for e in events.values():
    if e["parent"] in events and e["end_ns"]:
        children[e["parent"]] += e["end_ns"] - e["start_ns"]
report = read_json("report.json")
self_ns = sum(r["self_ns"] for r in report["rows"])
calls = sum(r["calls"] for r in report["rows"])


def shapes(args):
    out = []
    for a in args:
        if a["kind"] == "tensor":
            out.append("?" if a["shape"] is None else "[%s]" % ",".join(map(str, a["shape"])))
        elif a["kind"] == "list":
            out += shapes(a["items"])
    return out


def is_node(e):
    return "::" not in e["op"] or e["op"].startswith("torch::autograd::")


def check_report():
    ended = [e for e in events.values() if e["end_ns"]]
    assert calls == len(ended), (calls, len(ended))
    by_op = collections.Counter()
    for e in ended:
        by_op[e["op"], e["phase"]] += 1
    seen = collections.Counter()
    for r in report["rows"]:
        seen[r["op"], r["phase"]] += r["calls"]
    assert by_op == seen


def check_chrome():
    j = chrome_trace.read(os.path.join(folder, "chrome"))
    origin = int(j["otherData"]["origin_ns"])
    starts, ends, ids = [], [], set()
    for e in j["traceEvents"]:
        if e.get("cat") == "ac2g" or e.get("cat") in DEVICE_CATEGORIES.values():
            continue
        if e["ph"] in "sf":
            (starts if e["ph"] == "s" else ends).append(e["id"])
        if e["ph"] not in "XB" or e["cat"] in ("python", "module", "user_annotation"):
            continue
        was = events[e["args"]["id"]]
        ids.add(was["id"])
        start = origin + round(e["ts"] * 1000)
        assert (e["name"], e["cat"], e["pid"], e["tid"]) == (was["op"], was["phase"], was["pid"], was["tid"]), (e, was)
        assert start == was["start_ns"], (e, was)
        assert (e["ph"] == "B") == (was["end_ns"] is None), e
        assert was["end_ns"] is None or round(e["dur"] * 1000) == was["end_ns"] - was["start_ns"], (e, was)
        wanted = shapes(was["args"])
        assert len(wanted) > 16 or e["args"].get("shapes", "") == " ".join(wanted), (e, was)
    assert ids == set(events)
    steps = [e for e in j["traceEvents"] if e.get("name", "").startswith("ProfilerStep#")]
    assert len(steps) == report["summary"]["steps"]["count"]
    assert sum(round(e["dur"] * 1000) for e in steps) == report["summary"]["steps"]["wall_ns"] or not steps
    wanted = sorted(e["forward_id"] for e in events.values() if e["forward_id"] and is_node(e))
    assert sorted(ends) == wanted and sorted(starts) == sorted(set(wanted)) and wanted


def check_chrome_activities():
    j = read_json("chrome")
    origin = int(j["otherData"]["origin_ns"])
    arrows, seen, tracks = collections.defaultdict(dict), {}, {}
    for e in j["traceEvents"]:
        if e["ph"] == "M" and e["name"] == "thread_name":
            tracks[e["pid"], e["tid"]] = e["args"]["name"]
        if e.get("cat") == "ac2g":
            arrows[e["id"]][e["ph"]] = (e["pid"], e["tid"], origin + round(e["ts"] * 1000))
        elif e.get("cat") in DEVICE_CATEGORIES.values():
            seen[e["pid"], e["tid"], origin + round(e["ts"] * 1000)] = e
            track = "%s stream %d" % (e["args"]["device"], e["args"]["stream"])
            assert tracks[e["pid"], e["tid"]] in (track, track + " (2)"), e
    rows = [(e["cat"], e["name"], start, start + round(e["dur"] * 1000), *map(e["args"].get, ("stream", "bytes", "op_id")))
            for (_, _, start), e in seen.items()]
    wanted = [(DEVICE_CATEGORIES[a["activity"]], *map(a.get, ("name", "start_ns", "end_ns", "stream", "bytes", "op_id"))) for a in activities]
    assert sorted(rows, key=str) == sorted(wanted, key=str)
    for ends in arrows.values():
        (pid, tid, at), op = ends["s"], events[seen[ends["f"]]["args"]["op_id"]]
        assert (op["pid"], op["tid"]) == (pid, tid) and op["start_ns"] <= at <= op["end_ns"], (ends, op)
    assert len(arrows) == sum(a["op_id"] is not None for a in activities)


def check_folded():
    total, names = 0, {shown(e["op"]) for e in events.values()}
    with open(os.path.join(folder, "folded"), encoding="utf-8") as f:
        for line in f:
            stack, ns = re.fullmatch(r"(.+) (\d+)\n", line).groups()
            assert stack.split(";")[-1] in names, line
            total += int(ns)
    assert total == self_ns, (total, self_ns)


def check_speedscope():
    """Everything that is opened is closed, and each op is where the folded stacks have it."""
    j = read_json("speedscope")
    frames = j["shared"]["frames"]
    names = {shown(e["op"]) for e in events.values()}
    for frame in frames:
        assert isinstance(frame["name"], str) and set(frame) <= {"name", "file", "line", "col"}, frame
    opened, spent = collections.Counter(), collections.Counter()
    for p in j["profiles"]:
        assert set(p) == {"type", "name", "unit", "startValue", "endValue", "events"} and p["type"] == "evented"
        assert p["unit"] == "nanoseconds" and isinstance(p["name"], str)
        stack, last = [], p["startValue"]
        for e in p["events"]:
            assert set(e) == {"type", "frame", "at"} and e["at"] >= last, e
            if stack and stack[-1] in names and e["at"] > last:
                spent[";".join(s.replace(";", ":") for s in stack)] += e["at"] - last
            last = e["at"]
            name = frames[e["frame"]]["name"]
            if e["type"] == "O":
                opened[name] += name in names
                stack.append(name)
            else:
                assert e["type"] == "C" and stack.pop() == name, e
        assert not stack and last == p["endValue"]
    assert +opened == collections.Counter(shown(e["op"]) for e in events.values())
    with open(os.path.join(folder, "folded"), encoding="utf-8") as f:
        folded = {stack: int(ns) for stack, ns in re.findall(r"(.+) (\d+)\n", f.read())}
    assert spent == folded or any(e["end_ns"] is None for e in events.values()), (spent - collections.Counter(folded), collections.Counter(folded) - spent)


def check_sqlite():
    db = sqlite3.connect(os.path.join(folder, "db"))
    seen = 0
    for row in db.execute("SELECT id, parent, depth, pid, tid, phase, op, start_ns, ns, thrown, forward_id, file, line,"
                          " shapes FROM calls"):
        was = events[row[0]]
        wanted = tuple(was[k] for k in ("id", "parent", "depth", "pid", "tid", "phase", "op", "start_ns"))
        assert row[:8] == wanted, (row, was)
        assert row[8] == (was["end_ns"] - was["start_ns"] if was["end_ns"] else None), (row, was)
        assert (bool(row[9]), row[10]) == (was["thrown"], was["forward_id"]), (row, was)
        assert row[12] is None or any((f["file"], f["line"]) == row[11:13] for f in was["stack"]), (row, was)
        seen += 1
    assert seen == len(events)
    for id, args, results, frames in db.execute(
            "SELECT id, args, results, (SELECT count(*) FROM stacks s WHERE s.stack = e.stack) FROM events e"):
        assert json.loads(args) == events[id]["args"] and json.loads(results) == events[id]["results"], id
        assert events[id]["phase"] == "backward" or frames == len(events[id]["stack"]), id
    rows = {(r["op"], r["phase"], r["file"], r["line"], r["parameter"]): (r["calls"], r["self_ns"])
            for r in report["rows"] if r["calls"]}
    sums = {r[:5]: r[5:] for r in db.execute(
        "SELECT op, phase, file, line, parameter, count(*), sum(self_ns) FROM calls WHERE ns NOT NULL GROUP BY 1, 2, 3, 4, 5")}
    assert rows == sums


def check_sqlite_activities():
    columns = "kind", "name", "device", "stream", "start_ns", "bytes", "launch", "op", "event", "pid", "tid", "phase"
    db = sqlite3.connect(os.path.join(folder, "db"))
    rows = list(db.execute("SELECT %s, ns, start_ns - launch_delay_ns, line FROM on_devices" % ", ".join(columns)))
    wanted = [(a["activity"], *(a[{"event": "op_id"}.get(c, c)] for c in columns[1:]), a["end_ns"] - a["start_ns"], a["launched_ns"],
               next((f["line"] for f in a["stack"] if "torch" not in f["file"]), None)) for a in activities]
    assert sorted(rows, key=str) == sorted(wanted, key=str)


def check_csv():
    seen, backward = set(), 0
    with open(os.path.join(folder, "csv"), encoding="utf-8", newline="") as f:
        for r in csv.DictReader(f):
            if not r["forward_id"]:
                continue
            backward += round(float(r["backward_elapsed"] or 0) * 1e6)
            was = events[int(r["forward_id"])]
            seen.add(was["id"])
            assert r["name"] == was["op"]
            assert not was["end_ns"] or round(float(r["forward_elapsed"]) * 1e6) == was["end_ns"] - was["start_ns"]
            assert json.loads(r["input"]) == was["args"] and json.loads(r["output"]) == was["results"], was
    assert seen == {e["id"] for e in events.values() if e["phase"] == "forward"}
    assert backward == sum(
        e["end_ns"] - e["start_ns"] for e in events.values() if is_node(e) and e["forward_id"] and e["end_ns"]), backward


for name, check in sorted(globals().copy().items()):
    if name.startswith("check_"):
        try:
            check()
        except AssertionError:
            print(name)
            raise
