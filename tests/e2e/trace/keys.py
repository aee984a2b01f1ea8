"""The sets of keys of events; frames and tensors always have the same keys: keys.py EVENTS"""

import json
import sys

import jsonl

FRAME = ["column", "end_column", "file", "function", "line"]
TENSOR = set("name kind shape stride storage_offset numel dtype device layout requires_grad data_ptr".split())


def keys(event):
    for f in event["stack"]:
        assert sorted(f) == FRAME, f
    for v in event["args"] + event["results"]:
        if v["kind"] == "tensor":
            assert set(v) == TENSOR, v
    return json.dumps(sorted(event))


print(*sorted({keys(e) for e in jsonl.read(sys.argv[1])}), sep="\n")
