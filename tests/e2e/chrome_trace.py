"""A strict reader of Trace Event JSON, as chrome://tracing and Perfetto read it: read(FILE) returns the object, or
raises AssertionError where a reader might understand something else than intended. As a program: exits with 0 if it
accepts FILE...

The format: "Trace Event Format" (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), and
for profiles src/trace_processor/importers/json/json_trace_tokenizer.cc and ../common/legacy_v8_cpu_profile_tracker.cc
of Perfetto.
"""
import bisect
import collections
import json
import sys

# By phase: required fields, and optional ones.
FIELDS = {
    "X": ({"ts", "dur", "cat"}, {"args"}),
    "B": ({"ts", "cat"}, {"args"}),
    "E": ({"ts"}, set()),
    "M": ({"args"}, set()),
    "s": ({"ts", "cat", "id"}, set()),
    "f": ({"ts", "cat", "id"}, {"bp"}),
    "i": ({"ts", "s"}, set()),
    "P": ({"ts", "cat", "id", "args"}, set()),
}
ALL = {"ph", "pid", "tid", "name"}


def only_json(word):
    raise AssertionError("not JSON: " + word)


def no_twins(pairs):
    out = dict(pairs)
    assert len(out) == len(pairs), pairs
    return out


def is_int(x):
    return isinstance(x, int) and not isinstance(x, bool)


def check_event(e):
    needed, may = FIELDS[e["ph"]]
    always = ALL - {"name"} if e["ph"] == "E" else ALL
    assert always | needed <= set(e) <= always | needed | may, e
    assert is_int(e["pid"]) and is_int(e["tid"]) and 0 <= e["pid"] < 2**32 and 0 <= e["tid"] < 2**32, e
    assert e["ph"] == "E" or isinstance(e["name"], str) and e["name"], e
    for key in "ts", "dur":
        assert key not in e or (isinstance(e[key], (int, float)) and not isinstance(e[key], bool)), e
    assert e.get("dur", 0) >= 0 and isinstance(e.get("cat", "-"), str) and isinstance(e.get("args", {}), dict), e
    assert e["ph"] != "M" or (e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str)), e
    assert e["ph"] != "i" or e["s"] in ("g", "p", "t"), e
    assert e.get("bp", "e") == "e", e


def ns(us):
    return round(us * 1000)


def check_slices(slices):
    """The slices of a thread, in the order of the file: they start in order and nest properly, and all are closed."""
    open_ends, last = [], None
    for e in slices:
        start = ns(e["ts"])
        assert last is None or start >= last or e["ph"] == "E", ("not in order", e)
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if e["ph"] == "E":
            assert open_ends and open_ends.pop() == float("inf"), ("ends what is not open", e)
            continue
        last = start
        end = start + ns(e["dur"]) if e["ph"] == "X" else float("inf")
        assert not open_ends or end <= open_ends[-1], ("overlaps", e)
        open_ends.append(end)
    assert float("inf") not in open_ends


def is_open_at(slices, at):
    return any(e["ph"] == "X" and ns(e["ts"]) <= at <= ns(e["ts"]) + ns(e["dur"]) for e in slices)


def check_flows(events, slices):
    """Each arrow has one start and at least one end, not before the start, and both are at the start of a slice, or that of a launch
    within one."""
    begins = {thread: sorted(ns(e["ts"]) for e in each if e["ph"] != "E") for thread, each in slices.items()}
    starts, ends = {}, collections.defaultdict(list)
    for e in events:
        if e["ph"] not in "sf":
            continue
        of = begins.get((e["pid"], e["tid"]), [])
        at = bisect.bisect_left(of, ns(e["ts"]))
        is_launch = e["cat"] == "ac2g" and e["ph"] == "s"
        is_in_slice = at < len(of) and of[at] == ns(e["ts"])
        assert is_in_slice or is_launch and is_open_at(slices[e["pid"], e["tid"]], ns(e["ts"])), ("in no slice", e)
        key = e["cat"], e["name"], e["id"]
        if e["ph"] == "s":
            assert key not in starts, ("two starts", e)
            starts[key] = e["ts"]
        else:
            assert e.get("bp") == "e", e
            ends[key].append(e["ts"])
    assert set(starts) == set(ends), "an arrow with one end"
    for key, ts in ends.items():
        assert min(ts) >= starts[key], key


def check_frame(node):
    frame = node["callFrame"]
    assert set(node) <= {"id", "parent", "callFrame"} and is_int(node["id"]) and node["id"] > 0, node
    assert isinstance(frame["functionName"], str) and isinstance(frame["url"], str), node


def check_profiles(events):
    """A profile begins before its chunks, on one thread; nodes occur once, parents first; samples refer to nodes."""
    threads, nodes = {}, collections.defaultdict(set)
    for e in events:
        if e["ph"] != "P":
            continue
        key, data = (e["pid"], int(e["id"], 16)), e["args"]["data"]
        if e["name"] == "Profile":
            assert key not in threads and is_int(data["startTime"]), e
            threads[key] = e["tid"]
            continue
        assert e["name"] == "ProfileChunk" and threads[key] == e["tid"], e
        for node in data["cpuProfile"]["nodes"]:
            check_frame(node)
            assert node["id"] not in nodes[key] and node.get("parent", node["id"]) in nodes[key] | {node["id"]}, node
            nodes[key].add(node["id"])
        samples, deltas = data["cpuProfile"]["samples"], data["timeDeltas"]
        assert len(samples) == len(deltas) and all(map(is_int, deltas)) and nodes[key] >= set(samples), e


def read(path):
    with open(path, encoding="utf-8", errors="strict") as f:
        trace = json.load(f, parse_constant=only_json, object_pairs_hook=no_twins)
    assert set(trace) <= {"traceEvents", "displayTimeUnit", "otherData"} and trace["displayTimeUnit"] in ("ms", "ns")
    events, slices = trace["traceEvents"], collections.defaultdict(list)
    for e in events:
        check_event(e)
        if e["ph"] in "XBE":
            slices[e["pid"], e["tid"]].append(e)
    for of_thread in slices.values():
        check_slices(of_thread)
    check_flows(events, slices)
    check_profiles(events)
    return trace


if __name__ == "__main__":
    for each in sys.argv[1:]:
        read(each)
