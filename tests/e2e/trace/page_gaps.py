"""Whether PAGE, of export --to html, has the time in no op of GAPS, of report --gaps --format csv, with the workers' apart."""

import collections
import csv
import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    data = json.loads(f.read().split('id="data">', 1)[1].split("</script>", 1)[0])
with open(sys.argv[2], encoding="utf-8") as f:
    wanted = collections.Counter((r["file"], r["line"], r["worker"], r["total_ns"]) for r in csv.DictReader(f))
seen = collections.Counter((r["file"] or "", str(r["line"] or ""), str(r["worker"]).lower(), str(r["total_ns"])) for r in data["in_no_op"]["rows"])
assert seen == wanted, (seen - wanted, wanted - seen)
assert {worker for _, _, worker, _ in seen} == {"true", "false"}
