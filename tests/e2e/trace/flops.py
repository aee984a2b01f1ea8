"""flops.py COUNTED REPORT: the rows of report --format json are what PyTorch's FlopCounterMode has counted, which knows neither
the CPU's attention nor that a convolution is called _convolution."""

import json
import sys

counted, rows = (json.load(open(f)) for f in sys.argv[1:])
ours = {r["op"].replace("aten::", ""): r["flops"] for r in rows["rows"] if r["flops"] != 0}
ours["convolution"] = ours.pop("_convolution")
ours = {op: n for op, n in ours.items() if "attention" not in op}
assert len(ours) == 6 and ours == counted, (ours, counted)
