"""dashboard.py DASHBOARD TEXT: each panel of a Grafana dashboard asks for metrics that are served.
dashboard.py DASHBOARD HOWTO PORT: the Prometheus at that port understands its questions, and those of the how-to."""

import json
import os
import re
import sys
import urllib.parse
import urllib.request

SUFFIXES = {"counter": ["_total"], "info": ["_info"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}
VARIABLES = {"$job": ".*", "$instance": ".*", "$__rate_interval": "1m"}

with open(sys.argv[1]) as f:
    board = json.load(f)
with open(sys.argv[2]) as f:
    text = f.read()
asked = {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in board["panels"]}
assert len(asked) == len(board["panels"]) > 5 and all(asked.values())

if len(sys.argv) == 3:
    served = {name + suffix for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M) for suffix in SUFFIXES[kind]}
    for title, exprs in asked.items():
        names = set(re.findall(r"\bditrace_\w+", " ".join(exprs)))
        assert names and names <= served, (title, names - served)
else:
    asked["how-to"] = re.findall(r"^ {4}(.*(?:rate\(ditrace|time\(\) - ditrace).*)$", text, re.M)
    assert len(asked["how-to"]) == 3
    for expr in sum(asked.values(), []):
        for name, value in VARIABLES.items():
            expr = expr.replace(name, value)
        url = f"http://127.0.0.1:{sys.argv[3]}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
        with urllib.request.urlopen(url, timeout=float(os.environ["PATIENCE"])) as answer:  # an error is another status
            assert json.load(answer)["status"] == "success", expr
