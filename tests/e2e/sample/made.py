"""What samples of workloads/sample/short_lived.py have that cannot be: made.py FILE.jsonl OUTPUT. Prints nothing if there is
nothing, and fails if few samples are in made code or many of those are not named."""

import bisect
import json
import re
import sys


def stack_of(sample):
    """The frames that make() called, outermost first."""
    frames = sample["python"] or []
    at = [i for i, frame in enumerate(frames) if frame["function"] == "make"]
    return frames[: at[0]][::-1] if at else []


def wrong(sample, began):
    """Why the frames called by make() cannot be."""
    frames = stack_of(sample)
    made = re.fullmatch(r"<made (\d+)>", frames[0]["file"])
    if not made:
        return None if frames[0]["function"] == "?" else "called by make"
    n = int(made[1])
    if bisect.bisect(began, sample["time_ns"]) - 1 != n:
        return f"round {n} in round {bisect.bisect(began, sample['time_ns']) - 1}"
    blank, gap = n % 7, n % 3
    outer = blank + gap + 7
    ranges = {
        "<module>": (0, outer + 2),
        f"outer_{n}_{outer}": (outer, outer + 1),
        f"leaf_{n}_{blank + 1}": (blank + 1, blank + 6),
    }
    for frame, (function, (first, last)) in zip(frames, ranges.items()):
        if frame["function"] == "?":
            return None
        if (frame["file"], frame["function"]) != (made[0], function) or not first <= frame["line"] <= last:
            return f"{frame} of round {n}"
    return None if len(frames) <= len(ranges) else f"{frames[3:]} within round {n}"


with open(sys.argv[1], encoding="utf-8") as f:
    samples = [json.loads(line) for line in f if '"sample":true' in line]
with open(sys.argv[2], encoding="utf-8") as f:
    began = [int(ns) for ns in f.read().split()]
made = [sample for sample in samples if stack_of(sample)]
unnamed = sum(any(frame["function"] == "?" for frame in stack_of(sample)) for sample in made)
impossible = [why for why in (wrong(sample, began) for sample in made) if why]
for why in impossible[:20]:
    print(why)
print(f"{len(made)} samples in made code, {unnamed} not named, {len(impossible)} impossible", file=sys.stderr)
sys.exit(not impossible and (len(made) < 50 or unnamed * 10 > len(made)))
