"""The events of workloads/torchops.py: each call is there, with its own argument. torch_ops.py EVENTS"""

import collections
import sys

import jsonl


def check(events):
    seen = collections.defaultdict(list)
    for e in events:
        if any("torchops.py" in f["file"] for f in e["stack"]):
            seen[e["op"]].append([a.get("value") for a in e["args"]])
    assert [a[2] for a in seen["aten::add.Tensor"]] == list(range(100)), seen["aten::add.Tensor"]
    assert [a[0] for a in seen["ditrace_test::numbers"]] == list(range(100)), seen["ditrace_test::numbers"]
    assert [a[1] for a in seen["aten::mul.Scalar"] if a[1] is not None] == list(range(100))
    assert len(seen["aten::neg"]) == 2, seen["aten::neg"]


check(jsonl.read(sys.argv[1]))
