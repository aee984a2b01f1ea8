"""A Python expression that holds for ditrace stack --format json of workloads/process/stuck.py: stack_says.py JSON
SOURCE EXPRESSION. It may use `look`, the whole output; `threads`; `first`, the main thread; at(mark), the threads with
a Python frame on the marked line; and kinds(threads), their wait reasons."""

import json
import sys


def marks_of(path):
    with open(path, encoding="utf-8") as f:
        return {s.split("# mark: ")[1].strip(): n for n, s in enumerate(f, 1) if "# mark: " in s}


def at(mark):
    return [t for t in threads if any(f["file"].endswith("stuck.py") and f["line"] == marks[mark] for f in t["python"])]


def kinds(some):
    return sorted({t["kind"] for t in some})


with open(sys.argv[1], encoding="utf-8") as seen:
    look = json.load(seen)
marks = marks_of(sys.argv[2])
threads = look["threads"]
first = next(t for t in threads if t["tid"] == look["pid"])
if not eval(sys.argv[3]):
    print(json.dumps(look, indent=1))
    sys.exit(1)
