"""compare_samples.py FOLDER: whether FOLDER/events (script --format jsonl), report.json, csv, chrome, folded,
speedscope and db, all of the samples of one trace, agree sample by sample."""
import collections
import csv
import json
import os
import sqlite3
import sys

import chrome_trace

folder = sys.argv[1]


def path(name):
    return os.path.join(folder, name)


def text(name):
    return open(path(name), encoding="utf-8", newline="")


samples = [s for s in map(json.loads, text("events")) if s.get("sample")]
weight = sum(s["weight"] for s in samples)
whole = json.load(text("speedscope"))
assert samples and weight


def label(frame):
    line = ":%d" % frame["line"] if frame["line"] else ""
    return "%s (%s%s)" % (frame["function"], os.path.basename(frame["file"]), line)


def report():
    j = json.load(text("report.json"))
    assert j["summary"]["samples"] == len(samples) and j["summary"]["weight"] == weight
    assert sum(r["samples"] for r in j["rows"]) == len(samples) and sum(r["weight"] for r in j["rows"]) == weight
    seen, wanted = collections.Counter(), collections.Counter()
    for r in j["rows"]:
        seen[r["op"]] += r["weight"]
    for s in samples:
        wanted[s["op"]] += s["weight"]
    assert {k: v for k, v in seen.items() if "(" not in k} == {k: v for k, v in wanted.items() if k}


def csv_rows():
    rows = list(csv.DictReader(text("csv")))
    assert len(rows) == len(samples)
    for r, s in zip(rows, samples):
        assert (int(r["time_ns"]), int(r["pid"]), int(r["tid"]), int(r["weight"])) == \
            (s["time_ns"], s["pid"], s["tid"], s["weight"])
        assert r["op"] == s["op"] if s["op"] else r["op"] in ("(in no op)", "(op not known)"), r
        assert (r["phase"], r["in_kernel"], r["mismatched"]) == \
            (s["phase"], str(int(s["in_kernel"])), str(int(s["mismatched"])))
        assert json.loads(r["python"]) == s["python"] and json.loads(r["native"]) == s["native"]
        assert r["symbol"] == (s["native"][0]["function"] if s["native"] else ""), r
        assert not r["line"] or [r["file"], int(r["line"])] in [[f["file"], f["line"]] for f in s["python"]], r


def chrome():
    j = chrome_trace.read(path("chrome"))
    origin = int(j["otherData"]["origin_ns"])
    chunks = [e for e in j["traceEvents"] if e["name"] == "ProfileChunk"]
    assert len(chunks) == len(samples)
    names, parents, at = {}, {}, {}
    for e in j["traceEvents"]:
        if e["name"] == "Profile":
            at[e["id"]] = e["args"]["data"]["startTime"]
    for e, s in zip(chunks, samples):
        data, profile = e["args"]["data"], e["id"]
        at[profile] += data["timeDeltas"][0]
        assert at[profile] == (s["time_ns"] - origin) // 1000 and (e["pid"], e["tid"]) == (s["pid"], s["tid"]), (e, s)
        assert data["weight"] == s["weight"]
        for n in data["cpuProfile"]["nodes"]:
            names[profile, n["id"]], parents[profile, n["id"]] = n["callFrame"]["functionName"], n.get("parent")
        stack, node = [], data["cpuProfile"]["samples"][0]
        while node:
            stack.append(names[profile, node])
            node = parents[profile, node]
        python = [label(f) for f in s["python"]]
        assert not python or stack[-len(python):] == python, (e["ts"], stack[-3:], python[-3:])
        assert not s["op"] or s["op"] in stack, (e["ts"], s["op"])


def sqlite():
    db = sqlite3.connect(path("db"))
    rows = db.execute("SELECT time_ns, pid, tid, weight, phase, in_kernel, mismatched, op, symbol FROM sampled").fetchall()
    assert len(rows) == len(samples)
    for r, s in zip(rows, samples):
        assert r[:7] == tuple(s[k] for k in ("time_ns", "pid", "tid", "weight", "phase", "in_kernel", "mismatched"))
        assert r[7] == s["op"] if s["op"] else r[7] in ("(in no op)", "(op not known)")
        assert r[8] == (s["native"][0]["function"] if s["native"] else None)
    depths = db.execute("SELECT (SELECT count(*) FROM stacks WHERE stack = python),"
                        " (SELECT count(*) FROM stacks WHERE stack = native) FROM samples").fetchall()
    assert depths == [(len(s["python"]), len(s["native"])) for s in samples]
    objects = {f["file"] for s in samples for f in s["native"] if f["file"].startswith("/")}
    builds = dict(db.execute("SELECT file, build_id FROM builds"))
    assert any(f in builds and len(builds[f]) == 40 for f in objects), (objects, builds)


def totals():
    folded = sum(int(line.rsplit(" ", 1)[1]) for line in text("folded"))
    [p] = whole["profiles"]
    assert folded == weight == sum(p["weights"]) == p["endValue"], (folded, weight, p["endValue"])


for check in report, csv_rows, chrome, sqlite, totals:
    try:
        check()
    except AssertionError:
        print(check.__name__)
        raise
