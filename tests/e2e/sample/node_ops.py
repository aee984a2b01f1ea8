"""The ops of the samples of workloads/sample/node.py that a backward took, if their native stacks are whole: node_ops.py
FILE.jsonl"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    samples = [json.loads(line) for line in f if '"sample":true' in line]
whole = [s for s in samples if any(n["function"] == "_start" for n in s["native"] or [])]
spun = [s["op"] for s in whole if [p["function"].split(".")[-1] for p in s["python"] or []][:2] == ["spin", "backward"]]
print(" ".join(sorted({str(op) for op in spun})))
