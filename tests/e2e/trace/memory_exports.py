"""memory_exports.py EVENTS CHROME PERFETTO DATABASE: whether the exports have what `script --only memory --format jsonl` has; that
for chrome://tracing by the names of torch.profiler."""

import collections
import json
import sqlite3
import sys

from perfetto_packets import fields, packets

with open(sys.argv[1], encoding="utf-8") as f:
    events = [json.loads(line) for line in f]
known = [e for e in events if e["bytes"]]
signed = [(e["address"], -e["bytes"] if e["memory"] == "freed" else e["bytes"], e["total"], e["reserved"] or 0) for e in known]
assert len(known) > 50 and {e["device"] for e in events} == {"cpu", "cuda:0", "cuda:1", "privateuseone:0"}, events[:3]
assert {"aten::empty.memory_format", None} <= {e["op"] for e in events}

with open(sys.argv[2], encoding="utf-8") as f:
    trace = json.load(f)["traceEvents"]
instants = [e["args"] for e in trace if e.get("name") == "[memory]"]
names = "Addr", "Bytes", "Total Allocated", "Total Reserved"
assert [tuple(a[name] for name in names) for a in instants] == signed
assert {(a["Device Type"], a["Device Id"]) for a in instants} == {(0, -1), (1, 0), (1, 1), (20, 0)}
counters = [(e["name"], e["args"]["allocated"]) for e in trace if e["ph"] == "C"]
assert counters == [("memory of " + e["device"], e["total"]) for e in known]

tracks, values = {}, collections.defaultdict(list)
for p in packets(sys.argv[3]):
    for t in map(fields, p[60]):
        if t[8]:
            assert fields(t[8][0])[3] == [3]  # bytes
            tracks[t[1][0]] = t[2][0].decode()
    for e in map(fields, p[11]):
        if e[9] == [4]:
            values[tracks[e[11][0]]].append(e[30][0])
for device in {e["device"] for e in events}:
    of = [e for e in events if e["device"] == device]
    assert values[f"memory of {device}, allocated"] == [e["total"] for e in of]
    assert values.get(f"memory of {device}, reserved", []) == [e["reserved"] for e in of if e["reserved"]]

rows = sqlite3.connect(sys.argv[4]).execute(
    "SELECT time_ns, device, address, bytes, freed, allocated, reserved, name FROM memory m LEFT JOIN ops o ON o.id = m.op ORDER BY m.rowid"
)
wanted = [
    (e["time_ns"], e["device"], e["address"], e["bytes"], e["memory"] == "freed", e["total"], e["reserved"], e["op"])
    for e in events
]
assert rows.fetchall() == wanted
