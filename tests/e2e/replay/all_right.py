"""The rows of replay --detail --format json are all right, and enough: all_right.py ROWS CALLS GRADIENTS
[VERDICT:PART,...]... With VERDICT, ops whose names contain one of the PARTs may have that one instead."""

import collections
import sys

import jsonl


def is_allowed(row, exceptions):
    return any(row["verdict"] == verdict and any(part in row["op"] for part in parts) for verdict, parts in exceptions)


def check(rows, least, least_grads, exceptions):
    for r in rows:
        assert r["verdict"] == "right" or is_allowed(r, exceptions), r
    calls = {r["dir"] for r in rows}
    print("#", len(calls), "calls,", collections.Counter((r["role"], r["verdict"]) for r in rows))
    assert len(calls) >= least, len(calls)
    assert sum(r["role"] == "grad" for r in rows) >= least_grads


allowed = [(verdict, parts.split(",")) for verdict, parts in (a.split(":") for a in sys.argv[4:])]
check(jsonl.read(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), allowed)
