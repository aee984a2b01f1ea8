"""parameters.py EVENTS SAID: whether each gradient accumulation is shown with the name of its parameter, or with none; where it is
certain, with the name, but for the first two."""
import collections
import json
import sys

with open(sys.argv[2], encoding="utf-8") as f:
    said = {int(n): (sure == "1", name) for n, sure, name in (line.rstrip("\n").split(" ", 2) for line in f)}
shown = collections.defaultdict(list)
with open(sys.argv[1], encoding="utf-8") as f:
    for e in map(json.loads, f):
        if not e["op"].endswith("AccumulateGrad"):
            continue
        assert not (e["parameter"] and e["stack"]), e
        shown[e["args"][0]["items"][0]["numel"]].append(e["parameter"])
assert set(shown) == set(said), (set(shown) ^ set(said))
for numel, (sure, name) in said.items():
    wrong = [s for s in shown[numel] if s not in (None, name)]
    assert not wrong, (numel, name, wrong)
    if sure and name != "-":
        assert len(shown[numel]) >= 22 and None not in shown[numel][2:22], (name, shown[numel])
assert sum(s is not None for names in shown.values() for s in names) >= 20 * (3 * 7 + 3)
