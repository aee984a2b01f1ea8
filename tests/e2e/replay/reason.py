"""A call was not run, and its reason matches a regular expression: reason.py ROWS ID REGEX"""

import re
import sys

import jsonl

row = [r for r in jsonl.read(sys.argv[1]) if r["id"] == int(sys.argv[2])]
print(row)
assert len(row) == 1 and row[0]["verdict"] == "not run" and re.search(sys.argv[3], row[0]["reason"])
