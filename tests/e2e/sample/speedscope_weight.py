"""The weight of all samples in a speedscope of one profile, whose samples have their weights and frames:
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
