"""The call graph of report --format json, on standard input, adds up to the time, and no node has less than the sum of
its children: call_graph.py NANOSECONDS"""

import json
import sys


def check(node):
    below = sum(map(check, node["children"]))
    assert below <= node["total_ns"], node
    return node["total_ns"]


assert sum([check(node) for node in json.load(sys.stdin)]) == int(sys.argv[1])
