"""Compares the paths of modules in a report by op, shape and module with those the program reports: no other path, and
none missing where it is certain."""
import json
import sys

with open(sys.argv[2]) as out:
    lines = [line.rstrip("\n").split(" ", 2) for line in out]
with open(sys.argv[1]) as report:
    rows = json.load(report)["rows"]
said = {length: path for length, _, path in lines}
found = {row["shape"].strip("[]()"): row["module"] for row in rows}
outside = found.pop("9999")
wrong = {n: (path, said.get(n)) for n, path in found.items() if path is not None and path != said.get(n)}
missing = [n for n, sure, _ in lines if sure == "1" and found.get(n) is None]
if wrong or missing or outside or not said:
    sys.exit("wrong %s, missing %s, outside of modules %s" % (wrong, missing, outside))
