#!/usr/bin/env python3
"""What ditrace, and other rules, say of the corpus.

    judge.py FOLDER VERDICTS [--detail]

VERDICTS is the output of: ditrace replay --of captured --format json --detail FOLDER/captures. Faults that move the
exact result by less than two spacings of its dtype are not there to be seen, and are counted apart. Ends
with status 1 when a correct kernel is called wrong, or 3 % of the faults or more are missed."""

import collections
import json
import os
import sys

RULES = ("ditrace", "ditorch", "assert_close", "msprobe", "dynamo")
VISIBLE = 2.0


def read(folder, verdicts):
    rows = collections.defaultdict(list)
    for line in open(verdicts):
        r = json.loads(line)
        rows[r["id"]].append(r)
    cases = json.load(open(os.path.join(folder, "cases.json")))
    for c in cases:
        mine = [r for r in rows[c["id"]] if r["role"] in (c["role"], None)] or rows[c["id"]]
        c["rows"] = mine
        c["judged"] = any(r["verdict"] in ("right", "wrong") for r in mine)
        c["ditrace"] = not any(r["verdict"] == "wrong" for r in rows[c["id"]])
    return cases


def rate(cases, rule, wanted):
    known = [c for c in cases if c[rule] is not None]
    if not known:
        return "-"
    bad = sum(c[rule] != wanted for c in known)
    return f"{bad} of {len(known)} ({100 * bad / len(known):.1f} %)"


def table(title, groups):
    print(f"{title:24}" + "".join(f"{r:>24}" for r in RULES))
    for name, cases, wanted in groups:
        print(f"{name:24}" + "".join(f"{rate(cases, r, wanted):>24}" for r in RULES))
    print()


def main():
    cases = read(*sys.argv[1:3])
    lost = [c for c in cases if not c["judged"]]
    correct = [c for c in cases if c["what"] == "correct"]
    faults = [c for c in cases if c["what"] == "fault" and c["moved"] >= VISIBLE]
    hidden = [c for c in cases if c["what"] == "fault" and c["moved"] < VISIBLE]
    table("false alarms", [("all", correct, True)] + [(d, [c for c in correct if c["dtype"] == d], True)
                                                      for d in ("float32", "bfloat16", "float16")])
    table("missed faults", [("all", faults, False)] + [(d, [c for c in faults if c["dtype"] == d], False)
                                                       for d in ("float32", "bfloat16", "float16")])
    kinds = sorted({c["kind"] for c in faults})
    table("missed, by fault", [(k, [c for c in faults if c["kind"] == k], False) for k in kinds])
    print(f"{len(hidden)} more faults move the exact result by less than {VISIBLE:g} spacings of its dtype; ditrace calls "
          f"{sum(not c['ditrace'] for c in hidden)} of them wrong")
    print(f"{len(lost)} cases not judged")
    false = [c for c in correct if not c["ditrace"]]
    missed = [c for c in faults if c["ditrace"]]
    if "--detail" in sys.argv:
        for c in false + missed + lost[:20]:
            r = c["rows"][0] if c["rows"] else {}
            print(c["what"], c["op"], c["kind"], c["dtype"], c["size"], c["role"], "moved", c["moved"], "|",
                  {k: r.get(k) for k in ("worst", "rms", "mean", "along", "cpu_worst", "cpu_rms", "cpu_mean", "cpu_along", "reach", "verdict", "reason", "index")})
    sys.exit(1 if false or lost or len(missed) >= 0.03 * len(faults) else 0)


if __name__ == "__main__":
    main()
