#!/usr/bin/env python3
"""compare_engines.py BPF.jsonl PTRACE.jsonl [--least N]: whether two traces of the same program have the same events:
the same ops in the same order on each thread, with the same parents, arguments, results, lines and forward ops. Times,
addresses and the numbers of processes, threads and events may differ. So may values that are unknown in one of them:
when the layout of tensors becomes known depends on timing, and eBPF cannot read a page that is not in memory at the
moment."""

import argparse
import collections
import gc
import json
import re
import sys

SHOWN = 20
UNKNOWN_OP = "boxed"  # its operator could not be read
MAX_UNKNOWN = (0.3, 0.03)  # shares of the events: values unknown to bpf, to the other engine
MAX_UNTOLD = 0.1  # among these what functions of Python return in the backward, which PyTorch tells nobody
unknown = [[], []]
ADDRESS = re.compile(r'("(?:data_ptr|storage_ptr|address)":\s*)(?:"[^"]+"|[1-9]\d*)')


def without_parameters(found):
    """From which call on the name of a parameter is known, which stands in place of a line, differs."""
    within = set()
    for e in sorted(found, key=lambda e: e["id"]):
        if e["op"].endswith("AccumulateGrad") or (e["pid"], e["parent"]) in within:
            within.add((e["pid"], e["id"]))
            e["stack"] = []
    return found


def events(path):
    with open(path) as f:
        return without_parameters([json.loads(ADDRESS.sub(r'\1"address"', line)) for line in f])


def by_thread(all_events):
    """The threads in order of creation, each a list of events in terms that are comparable between both traces. An
    event is identified by its thread and its index there."""
    root = min(all_events, key=lambda e: e["start_ns"])["pid"] if all_events else 0

    def born(key):  # numbers begin anew at the kernel's pid_max
        return [(number < root, number) for number in key]

    threads, place = {key: [] for key in sorted({(e["pid"], e["tid"]) for e in all_events}, key=born)}, {}
    number = {key: i for i, key in enumerate(threads)}
    for e in sorted(all_events, key=lambda e: (e["start_ns"], e["id"])):
        key = e["pid"], e["tid"]
        place[e["pid"], e["id"]] = number[key], len(threads[key])
        threads[key].append(e)
    for e in all_events:
        pid = e.pop("pid")
        for key in ("parent", "forward_id"):
            e[key] = place.get((pid, e[key])) if e[key] else None
        for key in ("id", "tid", "start_ns"):
            e.pop(key)
        e["ended"] = bool(e.pop("end_ns"))
    return list(threads.values())


def is_unknown(value, path):
    if path.endswith(".line") and value == 0:  # the code object was freed before its line table was read
        return True
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) and value[0].get("name") == "?":
        return True
    return value in (None, "?") or isinstance(value, dict) and value.get("kind") == "not_decoded"


def first_difference(a, b, path=""):
    """None if they are the same, except for unknown values."""
    if a == b:
        return None
    for side, value in enumerate((a, b)):
        if is_unknown(value, path):
            unknown[side].append(path)
            return None
    if isinstance(a, dict) and isinstance(b, dict):
        for k in sorted(a.keys() | b.keys()):
            if difference := first_difference(a.get(k), b.get(k), f"{path}.{k}"):
                return difference
        return None
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            if difference := first_difference(x, y, f"{path}[{i}]"):
                return difference
        return None
    return f"{path}: {str(a)[:200]} against {str(b)[:200]}"


def main():
    gc.disable()  # scanning the objects that stay to the end takes as long as all else
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("a")
    p.add_argument("b")
    p.add_argument("--least", type=int, default=1, help="events that there must be")
    p.add_argument("--observed", action="store_true", help="boxed calls are told by PyTorch to the second one")
    args = p.parse_args()
    a, b = (by_thread(events(path)) for path in (args.a, args.b))
    n = sum(map(len, a))
    problems = []
    if [len(t) for t in a] != [len(t) for t in b]:
        problems.append(f"events a thread: {[len(t) for t in a]} against {[len(t) for t in b]}")
    if n < args.least:
        problems.append(f"only {n} events")
    for i, (x, y) in enumerate(zip(a, b)):
        for k, (e, f) in enumerate(zip(x, y)):
            blind = [side for side, x in enumerate((e, f)) if x["op"] == UNKNOWN_OP]
            if len(blind) == 1:
                unknown[blind[0]].append("op")
            elif difference := first_difference(e, f):
                problems.append(f"thread {i} event {k} ({e['op']}): {difference}")
    for side, share in zip(unknown, (MAX_UNKNOWN[0], MAX_UNTOLD) if args.observed else MAX_UNKNOWN):
        if len(side) > max(100, n * share):
            problems.append(f"{len(side)} values that only one knows: {collections.Counter(side).most_common(5)}")
    for text in problems[:SHOWN]:
        print("#", text)
    print(f"# {n} events on {len(a)} threads, {len(problems)} differences;", end=" ")
    print(f"not known: to bpf {len(unknown[0])}, to the other {len(unknown[1])}")
    return bool(problems)


sys.exit(main())
