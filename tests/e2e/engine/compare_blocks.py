"""Compare the blocks of a trace with those of its program, tests/workloads/engine/blocks.py: compare_blocks.py PRINTED
REPORT.csv CHROME.json [PROFILER.json]. Each of the program's own lasts longer than what it measured inside, and shorter than
what it measured around it; there are as many of each name as torch.profiler has. With the profiler's own trace, prints
both durations of each, in microseconds."""

import csv
import json
import sys

CLOCKS_NS = 20000  # of the CPU's counter and CLOCK_MONOTONIC, at most
ONCE = {"again", "handed"}  # torch.profiler has the outer one alone; 1.13 has none of another thread

printed = [line.split() for line in open(sys.argv[1])]
rows = {}
for row in csv.DictReader(open(sys.argv[2])):
    calls, unended = rows.get(row["block"], (0, 0))
    rows[row["block"]] = calls + int(row["calls"]), unended + int(row["unended"])
chrome = json.load(open(sys.argv[3]))
origin = int(chrome["otherData"]["origin_ns"])
slices = {}
for e in chrome["traceEvents"]:
    if e.get("cat") == "user_annotation" and e["tid"] >= 1 << 30:
        start = origin + round(e["ts"] * 1000)
        slices.setdefault(e["name"], []).append((start, start + round(e["dur"] * 1000) if e["ph"] == "X" else 0))
assert not [e for e in chrome["traceEvents"] if "_record_function" in e.get("name", "")]

own = [line[1:] for line in printed if line[0] == "block"]
assert len(own) == 11, own
for name, *times in own:
    before, entered, left, after = map(int, times)
    assert any(
        before - CLOCKS_NS <= a <= entered + CLOCKS_NS and left - CLOCKS_NS <= b <= after + CLOCKS_NS
        for a, b in slices[name]
    ), (name, times, slices[name])
    assert rows[name][0] == sum(x[0] == name for x in own)
assert [b for _, b in slices["open"]] == [0] and rows["open"] == (0, 1), (slices["open"], rows["open"])

profiler = {line[2]: int(line[1]) for line in printed if line[0] == "profiler"}
for name, (calls, unended) in rows.items():
    assert name in ONCE or calls + unended == profiler[name], (name, calls, unended, profiler[name])
assert len(rows) == 11, rows

if sys.argv[4:]:
    trace = json.load(open(sys.argv[4]))
    theirs = {}
    for e in trace if isinstance(trace, list) else trace["traceEvents"]:
        if e.get("ph") == "X" and e["name"] in slices and e.get("cat") != "gpu_user_annotation":
            theirs.setdefault(e["name"], []).append((e["ts"], e["dur"]))
    for name, durations in theirs.items():
        ours = sorted(slices[name])
        if len(ours) == len(durations) and name != "open":
            pairs = zip(ours, sorted(durations))
            print(name, *(f"{(b - a) / 1000:.1f}/{d:.1f}" for (a, b), (_, d) in pairs))
