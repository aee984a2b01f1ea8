"""Whether all that tells how many ops a trace has, and how long they took, tells the same: totals.py TRACE."""

import csv
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

trace = sys.argv[1]


def ditrace(*words):
    return subprocess.run([os.environ["DITRACE"], *words, trace], check=True, capture_output=True, text=True).stdout


def same(what, seen, wanted):
    assert seen == wanted, f"{what}: {seen}, and the summary has {wanted}"


whole = json.loads(ditrace("report", "--percent-limit", "0", "--format", "json"))
summary, rows = whole["summary"], whole["rows"]
ended = summary["ops"] - summary["unfinished"]
same("the rows' calls", sum(r["calls"] for r in rows), ended)
self_ns = sum(r["self_ns"] for r in rows)
for group in ("op", "op,shape", "line", "file", "function", "thread", "dtype", "phase", "rank"):
    parts = list(csv.DictReader(ditrace("report", "--percent-limit", "0", "--format", "csv", "--group", group).splitlines()))
    same(f"calls by {group}", sum(int(r["calls"]) for r in parts), ended)
    same(f"self times by {group}", sum(int(r["self_ns"]) for r in parts), self_ns)

table = ditrace("report", "--columns", "self_percent,calls,op")
head = re.search(r"traced ([\d,]+) threads?,(?: in [^,]*,)? ?([\d,]+) ops", table)
same("the first lines", [int(x.replace(",", "")) for x in head.groups()], [summary["threads"], summary["ops"]])
cells = re.findall(r"^ *([\d.]+)% +([\d,]+) ", table, re.M)
same("the table's calls", sum(int(n.replace(",", "")) for _, n in cells), ended)

for worker in (False, True):
    share = sum(r["self_percent"] for r in rows if bool(r.get("worker")) == worker)
    assert share <= 100.01, f"{'workers' if worker else 'rows'} have {share} % of their time"

ops = [line for line in ditrace("script", "--format", "jsonl").splitlines() if '"op":' in line and '"op":"profiler::_record_' not in line]
same("the events of script", len(ops), ended - summary["summed"])
with tempfile.TemporaryDirectory() as folder:
    ditrace("export", "--to", "sqlite", "-o", folder + "/db")
    with sqlite3.connect(folder + "/db") as db:
        calls, = db.execute("select count(*) from calls").fetchone()
same("the calls of a database", calls, ended - summary["summed"])
page = ditrace("export", "--to", "html")
assert f'"ops":{summary["ops"]}' in page.replace(" ", ""), "the page has another number of ops"
