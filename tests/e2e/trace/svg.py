"""svg.py SVG FOLDED: whether the picture is well-formed, runs nothing, and has a frame for each folded stack that is wide enough, of
the width of its share."""

import re
import sys
import xml.etree.ElementTree

NS = "{http://www.w3.org/2000/svg}"
root = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
assert {e.tag for e in root.iter()} == {NS + t for t in ("svg", "style", "rect", "text", "g", "title")}
boxes = [(g.find(NS + "title").text.split("\n")[0], g.find(NS + "rect")) for g in root.iter(NS + "g")]
total, ops = 0, {}
with open(sys.argv[2]) as f:
    for stack, ns in re.findall(r"(.+) (\d+)\n", f.read()):
        total += int(ns)
        ops[stack.split(";")[-1]] = ops.get(stack.split(";")[-1], 0) + int(ns)
top = min(float(r.get("y")) for _, r in boxes)
width = sum(float(r.get("width")) for _, r in boxes if float(r.get("y")) == top)
assert abs(width - 1380) < 5, width
for op in (o for o, ns in ops.items() if ns > total / 20):
    assert any(name == op and float(r.get("width")) > 1 for name, r in boxes), op
kinds = {r.get("class") for _, r in boxes}
assert kinds >= {"k0", "k1", "k2"}, kinds
