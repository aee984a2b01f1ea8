"""JSON Lines, as written by script --format jsonl and replay --format json: read, and their names as tables have them."""

import json


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def shown(op):
    """As tables and graphs name it."""
    return "gradient accumulation" if op.endswith("AccumulateGrad") else op
