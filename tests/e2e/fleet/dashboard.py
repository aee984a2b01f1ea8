"""dashboard.py FILE TEXT: each panel of a Grafana dashboard asks for metrics that are served, and all have a question."""

import json
import re
import sys

SUFFIXES = {"counter": ["_total"], "info": ["_info"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}

with open(sys.argv[2]) as f:
    families = re.findall(r"^# TYPE (\w+) (\w+)$", f.read(), re.M)
served = {name + suffix for name, kind in families for suffix in SUFFIXES[kind]}
with open(sys.argv[1]) as f:
    board = json.load(f)
for panel in board["panels"]:
    asks = [target["expr"] for target in panel["targets"]]
    assert asks and panel["title"] and {"h", "w", "x", "y"} == panel["gridPos"].keys(), panel
    for expr in asks:
        names = set(re.findall(r"\bditrace_\w+", expr))
        assert names and names <= served, (panel["title"], names - served)
        assert expr.count("(") == expr.count(")"), expr
assert len(board["panels"]) > 5
