"""perfetto.py TRACE EVENTS [ACTIVITIES]: whether the packets of export --to perfetto have each event of EVENTS (script --format jsonl)
as a slice of its thread, with its times and category, properly nested; and names, flows and steps; and what devices did (script --only
activities) in slices of their streams, with a flow from the op."""

import collections
import json
import sys

import perfetto_packets
from perfetto_packets import fields

packets = perfetto_packets.packets(sys.argv[1])
with open(sys.argv[2], encoding="utf-8") as f:
    events = {e["id"]: e for e in map(json.loads, f) if not e["op"].startswith("profiler::_record_function")}
texts, tracks = collections.defaultdict(dict), {}  # by field and number; (pid, tid) or a name by uuid
last, stacks, slices = collections.defaultdict(int), collections.defaultdict(list), []
starts, ends = {}, []  # flows: the id of the op; flow and slice
IS_LAUNCH = 1 << 62  # to what devices did
assert packets[0][13] == [3]
for p in packets:
    assert p[10] == [1] and p[13][0] & 2
    for kind, entries in fields(p[12][0] if p[12] else b"").items():
        for e in map(fields, entries):
            texts[kind][e[1][0]] = e[2][0].decode()
    for t in map(fields, p[60]):
        thread = fields(t[4][0]) if t[4] else None
        tracks[t[1][0]] = (thread[1][0], thread[2][0]) if thread else t[2][0].decode() if t[2] else "process"
    for e in map(fields, p[11]):
        track, at = e[11][0], p[8][0]
        assert at >= last[track] and track in tracks
        last[track] = at
        if e[9] == [2]:
            stacks[track].pop().append(at)
            continue
        notes = {texts[3][n[1][0]]: n[3][0] if n[3] else texts[29][n[17][0]] for n in map(fields, e[4])}
        slices.append([tracks[track], texts[1][e[3][0]], texts[2][e[10][0]], notes, at])
        stacks[track].append(slices[-1])
        assert not starts.keys() & set(e[47])
        starts.update((n, notes["id"]) for n in e[47])
        ends += [(n, slices[-1]) for n in e[48]]
assert not any(stacks.values())
origin = min(e["start_ns"] for e in events.values()) - min(s[4] for s in slices if "id" in s[3])
seen = set()
for track, category, name, notes, start, end in slices:
    if "id" not in notes:
        continue
    was = events[notes["id"]]
    seen.add(was["id"])
    assert (track, category, name) == ((was["pid"], was["tid"]), was["phase"], was["op"]), (name, was)
    assert start + origin == was["start_ns"] and was["end_ns"] in (None, end + origin), was
assert seen == set(events)
assert len(starts) == len(ends) and starts.keys() == {n for n, _ in ends} and set(starts.values()) <= seen
nodes = [(n, s) for n, s in ends if n < IS_LAUNCH]
assert all(starts[n] == s[3]["forward_id"] for n, s in nodes)
assert len(nodes) == len([e for e in events.values() if e["forward_id"] and "::" not in e["op"]])
assert {s[1] for s in slices} >= {"python", "forward", "backward", "user_annotation"}
if len(sys.argv) > 3:
    with open(sys.argv[3], encoding="utf-8") as f:
        activities = [(*map(a.get, ("name", "start_ns", "end_ns", "op_id")), "%s stream %d" % (a["device"], a["stream"]))
                      for a in map(json.loads, f)]
    on_devices = [s for s in slices if s[1] in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert sorted(activities, key=str) == sorted(((s[2], s[4] + origin, s[5] + origin, s[3].get("op_id"), s[0]) for s in on_devices), key=str)
    arrived = [(n, s) for n, s in ends if n >= IS_LAUNCH]
    assert len(arrived) == sum(a[3] is not None for a in activities) and all(starts[n] == s[3]["op_id"] for n, s in arrived)
