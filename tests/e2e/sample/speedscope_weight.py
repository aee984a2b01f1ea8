"""The total weight of the samples in a speedscope file with one profile; each sample has a weight and frames:
speedscope_weight.py FILE"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    whole = json.load(f)
frames = len(whole["shared"]["frames"])
[profile] = whole["profiles"]
assert len(profile["samples"]) == len(profile["weights"])
assert all(0 <= frame < frames for s in profile["samples"] for frame in s)
print(sum(profile["weights"]))
