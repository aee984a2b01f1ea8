"""ask_prometheus.py PORT QUERY RANKS: whether the Prometheus at that port has a value above 0 for each of these ranks."""

import json
import os
import sys
import urllib.parse
import urllib.request

port, query, ranks = sys.argv[1:]
url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
with urllib.request.urlopen(url, timeout=float(os.environ["PATIENCE"])) as answer:
    found = json.load(answer)["data"]["result"]
print(found)
sys.exit(sorted(v["metric"]["rank"] for v in found if float(v["value"][1]) > 0) != ranks.split())
