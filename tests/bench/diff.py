"""Runs of one training, each against each: how often ditrace diff says that a row's duration has changed, where nothing
has but what else the machine does."""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

TRAIN = os.path.join(os.path.dirname(__file__), "../workloads/train.py")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--runs", type=int, default=7)
    p.add_argument("--steps", type=int, default=30)
    a = p.parse_args()
    ditrace = os.environ["DITRACE"]
    with tempfile.TemporaryDirectory() as d:
        files = [f"{d}/{i}.data" for i in range(a.runs)]
        for f in files:
            program = [sys.executable, TRAIN, "--steps", str(a.steps), "--width", "64", "--quiet"]
            subprocess.run([ditrace, "run", "-o", f, "--", *program], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = []
        for x, y in itertools.combinations(files, 2):
            done = subprocess.run([ditrace, "diff", "--all", "--format", "json", x, y], stdout=subprocess.PIPE, text=True)
            rows.append([r["verdict"] for r in json.loads(done.stdout)["rows"]])
    named = [sum(v.startswith(("slower", "faster")) for v in of) for of in rows]
    print(f"  diff of {a.runs} equal runs, each with each: {sum(named)} of {sum(map(len, rows)):,} rows named, "
          f"in {sum(map(bool, named))} of {len(named)} pairs")


main()
