"""What called spin() of workloads/sample/dropped.py once its file was there: dropped.py FILE.jsonl. Fails if it was seen less
than ten times."""

import json
import sys

callers = []
with open(sys.argv[1], encoding="utf-8") as f:
    for line in f:
        frames = json.loads(line).get("python") or []
        at = [i for i, frame in enumerate(frames) if frame["function"] == "spin"]
        if at and len(frames) == at[-1] + 3:
            callers.append("{function} {file}:{line}".format(**frames[at[-1] + 1]))
print(*sorted(set(callers)))
sys.exit(len(callers) < 10)
