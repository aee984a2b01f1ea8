"""The events of workloads/run/escapes.py have its strings unchanged: true_strings.py EVENTS FILE"""

import sys

import jsonl

text = next(e for e in jsonl.read(sys.argv[1]) if e["op"] == "escape::text")
assert text["args"][0]["value"] == "\033[31mred\007 \x9b2J \u202e", text["args"]
assert text["stack"][-1]["file"] == sys.argv[2], text["stack"]
