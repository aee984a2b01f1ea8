"""The phases of samples of workloads/sample/compiles.py by what called the function that takes time: phases.py FILE.jsonl"""

import json
import sys

seen = {}
with open(sys.argv[1], encoding="utf-8") as f:
    for sample in (json.loads(line) for line in f if '"sample":true' in line):
        stack = [frame["function"] for frame in sample["python"] or []]
        if "spin" in stack[:-1]:
            caller = stack[stack.index("spin") + 1].split(".")[-1]
            seen.setdefault((caller, sample["phase"]), []).append(sample)
print(" ".join(f"{caller}:{phase}" for caller, phase in sorted(seen)))
