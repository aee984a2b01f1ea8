"""The shares of the three functions of workloads/sample/py_shares.py match those that it reports: function_shares.py
REPORT SAID"""

import json
import sys

from said import near, said

wanted = said(sys.argv[2], "cpu")
with open(sys.argv[1], encoding="utf-8") as f:
    rows = json.load(f)["rows"]
had = {f: sum(r["weight"] for r in rows if (r["function"] or "").endswith(f)) for f in wanted}
sys.exit(not near(had, wanted, 3))
