#!/usr/bin/env python3
"""Compare recorded statistics with those computed by the workload itself (tests/workloads/capture/stats.py).

    compare_stats.py SCRIPT.jsonl EXPECTED

SCRIPT.jsonl is the output of "ditrace script --format jsonl --stats". The k-th call of an op is compared with the k-th
line of that op.
"""

import json
import math
import sys

EXACT = ("count", "nan", "inf", "neg_inf", "zeros", "hash")


def close(a, b):
    a, b = float(a), float(b)
    return math.isnan(a) and math.isnan(b) or a == b or abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-6)


def differences(seen, want):
    if "reason" in seen:
        return ["not measured: " + seen["reason"]]
    return [f"{k}: seen {seen[k]}, wanted {w}" for k, w in want.items()
            if not (seen[k] == w if k in EXACT else close(seen[k], w))]


def main():
    ops, stats = {}, {}
    for line in open(sys.argv[1]):
        o = json.loads(line)
        if "stats_of" in o:
            stats[o["stats_of"]] = o["tensors"]
        else:
            ops.setdefault(o["op"], []).append(o["id"])
    wanted, tensors, failed = {}, 0, 0
    for line in open(sys.argv[2]):
        o = json.loads(line)
        wanted.setdefault(o["op"], []).append(o)
    for op, calls in wanted.items():
        ids = ops.get(op, [])
        if len(ids) != len(calls):
            sys.exit(f"{op}: {len(ids)} calls recorded, {len(calls)} made")
        for k, (i, want) in enumerate(zip(ids, calls)):
            for part in ("args", "results"):
                seen = [t for t in stats.get(i, []) if t["of"] == part]
                if len(seen) != len(want[part]):
                    sys.exit(f"{op}, call {k}: {len(seen)} {part}, wanted {len(want[part])}: {stats.get(i)}")
                for s, w in zip(seen, want[part]):
                    tensors += 1
                    for d in differences(s, w):
                        failed += 1
                        print(f"{op}, call {k}, {s['name']}: {d}")
    if failed or tensors < 80:
        sys.exit(f"{failed} differences in {tensors} tensors")
    print(f"# {tensors} tensors of {sum(map(len, wanted.values()))} calls")


if __name__ == "__main__":
    main()
