"""Reads JSON Lines, as written by script --format jsonl and replay --format json."""

import json


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]
