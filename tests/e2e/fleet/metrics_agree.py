"""metrics_agree.py TEXT REPORT RANK0 RANK1: the metrics of a trace are what report has: JSON of rows by rank, op and phase, and of
each rank alone."""

import collections
import json
import re
import sys

SAMPLE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

samples = collections.defaultdict(list)
with open(sys.argv[1]) as f:
    for line in f:
        if not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line.rstrip("\n")).groups()
            samples[name].append((dict(LABEL.findall(labels or "")), value))
report, *ranks = [json.load(open(path)) for path in sys.argv[2:]]


def ns(seconds):
    whole, part = seconds.split(".")
    return int(whole) * 10**9 + int(part)


calls, named, times, waits = (collections.Counter() for _ in range(4))
for row in report["rows"]:
    rank = str(row["rank"])
    calls[rank, row["phase"]] += row["calls"]
    named[rank, row["phase"], row["op"]] += row["calls"]
    times[rank, row["phase"], row["op"]] += row["self_ns"]
    if row["op"] == "c10d::Work::wait":
        waits[rank] += row["self_ns"]
seen = collections.Counter()
for v, n in samples["ditrace_ops_total"]:
    seen[v["rank"], v["phase"]] += int(n)
assert seen == calls and len(seen) == 4, (seen, calls)
loaded = [v for v, n in samples["ditrace_ops_total"] if v["role"] == "load" and int(n)]
assert [v["rank"] for v in loaded] == ["0"] and "pid" not in loaded[0]

for name, wanted, number in (("ditrace_op_calls_total", named, int), ("ditrace_op_seconds_total", times, ns)):
    assert len(samples[name]) > 20
    sums = collections.Counter()
    for v, n in samples[name]:
        sums[v["rank"], v["phase"], v["op"]] += number(n)
    for key, n in sums.items():
        assert n == wanted[key], (key, n)

for rank, alone in enumerate(ranks):
    steps, rank = alone["summary"]["steps"], str(rank)

    def of(name, rank=rank, **labels):
        labels |= {"rank": rank, "role": "train"}
        (found,) = [n for v, n in samples[name] if labels.items() <= v.items()]
        return found

    assert int(of("ditrace_steps_total")) == steps["count"] > 0, steps
    assert int(of("ditrace_step_seconds_count")) == int(of("ditrace_step_seconds_bucket", le="+Inf")) == steps["count"]
    assert ns(of("ditrace_step_seconds_sum")) == steps["wall_ns"]
    for part in "forward", "backward", "optimizer", "data", "no_op":
        wanted = steps[("in_" if part == "no_op" else "") + part + "_ns"]
        assert ns(of("ditrace_step_part_seconds_total", part=part)) == wanted, part
    waited = [n for v, n in samples["ditrace_wait_seconds_total"] if v["rank"] == rank and v["kind"] == "collective"]
    assert [*map(ns, waited)] == ([waits[rank]] if waits[rank] else []), (waited, waits)
    assert int(of("ditrace_collectives_total", collective="allreduce")) > steps["count"]
    assert int(of("ditrace_collective_bytes_total", collective="allreduce")) > 0
    assert int(of("ditrace_summed_ops_total")) == alone["summary"]["summed"] == 0
    assert of("ditrace_process_info", local_rank=rank, world_size="2", engine="shim") == "1"
assert samples["ditrace_lost_events_total"] == [({}, "0")]
