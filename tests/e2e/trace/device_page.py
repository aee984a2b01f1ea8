"""device_page.py PAGE EVENTS ACTIVITIES: whether the timelines of PAGE, of export --to html, have what devices did in their time, by
stream, and nothing of it twice; EVENTS and ACTIVITIES are of script --format jsonl."""

import json
import sys

page, *rest = (open(p, encoding="utf-8").read() for p in sys.argv[1:])
events, activities = (list(map(json.loads, text.splitlines())) for text in rest)
data = json.loads(page.split('id="data">', 1)[1].split("</script>", 1)[0])
names, ON_DEVICE = data["names"], 5
assert data["whole"]
for w in data["whole"]:
    at, ops, ran = 0, [], []
    for i, delta in enumerate(w["start"]):
        at += delta
        row = names[w["name"][i]], at, w["ns"][i], data["threads"][w["thread"][i]]
        if w["kind"][i] <= ON_DEVICE:
            (ran if w["kind"][i] == ON_DEVICE else ops).append(row)
    name, start, ns, (_, tid, _) = next(r for r in ops if "::" in r[0])
    origins = {e["start_ns"] - start for e in events if (e["op"], e["tid"], e["end_ns"] - e["start_ns"]) == (name, tid, ns)}

    def wanted(origin):
        overlap = [a for a in activities if a["start_ns"] < origin + w["length_ns"] and a["end_ns"] > origin]
        return sorted((a["name"], a["start_ns"] - origin, a["end_ns"] - a["start_ns"], [a["pid"], 0, f"{a['device']} stream {a['stream']}"]) for a in overlap)

    assert ran and any(sorted(ran) == wanted(origin) for origin in origins), ran
assert sum(data["flames"]["devices"]["self_ns"]) == sum(a["end_ns"] - a["start_ns"] for a in activities)
