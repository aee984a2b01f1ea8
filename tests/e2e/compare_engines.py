#!/usr/bin/env python3
"""compare_engines.py A.jsonl B.jsonl [--least N]: whether two traces of the same program hold the same
events: the same ops in the same order on each thread, with the same parents, arguments, results, lines
and forward ops. Times, addresses and the numbers of processes, threads and events may differ."""

import argparse
import json
import sys

SHOWN = 20
ADDRESSES = {"data_ptr", "storage_ptr", "address"}


def events(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def without_addresses(value):
    if isinstance(value, dict):
        return {k: (bool(v) if k in ADDRESSES else without_addresses(v)) for k, v in value.items()}
    return [without_addresses(v) for v in value] if isinstance(value, list) else value


def by_thread(all_events):
    """The threads in the order of their first events, each a list of events in terms that hold in both
    traces. An event is named by its thread and its place there."""
    threads, place = {}, {}
    for e in sorted(all_events, key=lambda e: (e["start_ns"], e["id"])):
        list_ = threads.setdefault((e["pid"], e["tid"]), [])
        place[e["pid"], e["id"]] = (list(threads).index((e["pid"], e["tid"])), len(list_))
        list_.append(e)
    for e in all_events:
        pid = e.pop("pid")
        for key in ("parent", "forward_id"):
            e[key] = place.get((pid, e[key])) if e[key] else None
        for key in ("id", "tid", "start_ns"):
            e.pop(key)
        e["ended"] = bool(e.pop("end_ns"))
    return [[without_addresses(e) for e in t] for t in threads.values()]


def first_difference(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for k in sorted(a.keys() | b.keys()):
            if a.get(k) != b.get(k):
                return first_difference(a.get(k), b.get(k), f"{path}.{k}")
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                return first_difference(x, y, f"{path}[{i}]")
    return f"{path}: {str(a)[:200]} against {str(b)[:200]}"


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("a")
    p.add_argument("b")
    p.add_argument("--least", type=int, default=1, help="events that there must be")
    args = p.parse_args()
    a, b = by_thread(events(args.a)), by_thread(events(args.b))
    n = sum(map(len, a))
    problems = []
    if [len(t) for t in a] != [len(t) for t in b]:
        problems.append(f"events a thread: {[len(t) for t in a]} against {[len(t) for t in b]}")
    if n < args.least:
        problems.append(f"only {n} events")
    for i, (x, y) in enumerate(zip(a, b)):
        for k, (e, f) in enumerate(zip(x, y)):
            if e != f:
                problems.append(f"thread {i} event {k} ({e['op']}): {first_difference(e, f)}")
    for text in problems[:SHOWN]:
        print("#", text)
    print(f"# {n} events on {len(a)} threads, {len(problems)} differences")
    return bool(problems)


sys.exit(main())
