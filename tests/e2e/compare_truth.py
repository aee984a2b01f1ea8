#!/usr/bin/env python3
"""Compares what ditrace saw of a run with what PyTorch logged of a second one.

    compare_truth.py EVENTS.jsonl TRUTH.json [--min-ops N]

EVENTS is `ditrace script --format jsonl`, TRUTH PyTorch's own log (see pytorch_log.py for what that
log lacks). Compared is the region between the two marks of tests/workloads/observer.py: the same ops in
the same order with the same parents, every argument and result, and the forward op of every backward
node. What the log does not say of tensors is checked by the ops themselves, wherever they run: add's
alpha from 1000 to 1003 says requires_grad, ditrace_tag::tag says anything. Exit status 0 only if
nothing differs and all values are decoded but those for the reasons in NOT_DECODED.
"""

import argparse
import collections
import gc
import json
import math
import sys

import pytorch_log

SHOWN = 30
BEGIN, END = 12345.0, 54321.0
NEAR = 400  # how far ahead to search for a lost op

NOT_DECODED = {
    "returned in an SSE register",
    "a storage, which is none of the kinds shown",
    "a quantization scheme, which is none of the kinds shown",
    "an IValue of a kind ditrace does not know",
}


class Report:
    def __init__(self):
        self.problems = []
        self.counts = collections.Counter()
        self.reasons = collections.Counter()

    def problem(self, kind, text):
        self.problems.append((kind, text))

    def differ(self, kind, event, where, seen, truth):
        self.problem(kind, f"{event['op']} (id {event['id']}) {where}: ditrace {seen!r}, PyTorch {truth!r}")

    def finish(self, notes):
        c, by_kind = self.counts, collections.Counter(k for k, _ in self.problems)
        share = 100 * c["not decoded"] / max(1, c["values"])
        shown = collections.Counter()
        for kind, text in self.problems:
            shown[kind] += 1
            if shown[kind] <= SHOWN:
                print(f"# {kind}: {text}"[:600])
        print(f"# {c['ops']} ops and {c['backward']} backward nodes, {c['values']} values, {c['tags']} tags,", end=" ")
        print(f"{c['not decoded']} not decoded ({share:.2f} %), {dict(by_kind) or 'no difference'}")
        for note in notes + [f"not decoded: {n} x {r}" for r, n in self.reasons.most_common(10)]:
            print(f"# note: {note}")
        return 1 if self.problems else 0


# The two sides as lists of ops in the order of their starts


def read_events(path):
    with open(path) as f:
        events = [json.loads(line) for line in f]
    for e in events:  # null: none, or unknown
        e.update({key: e[key] or 0 for key in ("parent", "end_ns", "forward_id")})
    return events


def check_order(events, report):
    ids = {}
    for e in events:
        ids[e["id"]] = e
    last = 0
    for e in events:
        parent = ids.get(e["parent"])
        if e["id"] <= last:
            report.problem("order", f"id {e['id']} comes after {last}")
        last = e["id"]
        if e["end_ns"] and e["end_ns"] < e["start_ns"]:
            report.problem("order", f"{e['op']} (id {e['id']}) ends before it starts")
        if not e["parent"]:
            continue
        if parent is None or parent["id"] >= e["id"]:
            report.problem("order", f"{e['op']} (id {e['id']}) has the parent {e['parent']}, which is not before it")
        elif parent["tid"] != e["tid"] or parent["depth"] + 1 != e["depth"] or parent["start_ns"] > e["start_ns"]:
            report.problem("order", f"{e['op']} (id {e['id']}) does not lie within its parent {parent['op']}")


def is_mark(op, value_of, fill):
    return op == "aten::full" and value_of() == fill


def event_region(events, report):
    """The events of the thread that ran the marks, from the first mark up to the second."""

    def find(fill):
        hits = [i for i, e in enumerate(events) if is_mark(e["op"], lambda: e["args"][1].get("value"), fill)]
        if len(hits) != 1:
            report.problem("region", f"the mark {fill} was seen {len(hits)} times, not once")
            return None
        return hits[0]

    first, last = find(BEGIN), find(END)
    if first is None or last is None:
        return []
    tid = events[first]["tid"]
    return [e for e in events[first:last] if e["tid"] == tid]


def truth_region(nodes):
    first = next(i for i, n in enumerate(nodes) if is_mark(n.op, lambda: n.args[1].get("value"), BEGIN))
    last = next(i for i, n in enumerate(nodes) if is_mark(n.op, lambda: n.args[1].get("value"), END))
    return [n for n in nodes[first:last] if n.tid == nodes[first].tid], nodes[last].rf - nodes[first].rf


def unobserved(nodes):
    """Names without overloads."""
    return pytorch_log.UNOBSERVED - {n.name for n in nodes}


def without_results(nodes):
    """Ops that return nothing: PyTorch writes these when they throw, too, having no outputs to miss."""
    return {n.op for n in nodes if n.kind == "op" and not n.schema.results}


def kept_events(region, never, void):
    """Drops those that PyTorch's log cannot have: ops that threw and the unobserved ones (never)."""
    by_id = {e["id"]: e for e in region}

    def keep(e):
        return not (e["thrown"] and e["op"] not in void) and e["op"].partition(".")[0] not in never

    kept = [e for e in region if keep(e)]
    for e in kept:
        parent = by_id.get(e["parent"])
        while parent and not keep(parent):
            parent = by_id.get(parent["parent"])
        e["kept_parent"] = parent["id"] if parent else 0
    return kept


def kept_nodes(nodes, functions):
    """functions: the names of autograd.Functions that ditrace shows. A node may have several allowed parents: what runs
    in the engine next to a backward node may or may not count as its child."""
    kept = [n for n in nodes if n.kind in ("op", "backward") or n.kind == "function" and n.op in functions]
    members = set(kept)
    inside = {n.parent: n for n in kept if n.kind == "backward" and n.parent}
    for n in kept:
        n.parents, up = [], n.parent
        while up and up not in members:
            beside = inside.get(up)
            if beside is not n and beside and beside.rf < n.rf:
                n.parents.append(beside)
            up = up.parent
        n.parents.append(up)
    return kept


def align(events, nodes, report):
    """Pairs of the same op; ops missing on one side are reported and skipped."""
    pairs, i, j = [], 0, 0

    def same(a, b):
        return a < len(events) and b < len(nodes) and events[a]["op"] == nodes[b].op

    def resync():
        for distance in range(1, NEAR):
            for skip in range(distance + 1):
                a, b = i + skip, j + distance - skip
                if same(a, b) and (same(a + 1, b + 1) or a + 1 == len(events)) and (same(a + 2, b + 2) or distance < 3):
                    return a, b
        return len(events), len(nodes)

    while i < len(events) or j < len(nodes):
        if same(i, j):
            pairs.append((events[i], nodes[j]))
            i, j = i + 1, j + 1
            continue
        a, b = resync()
        for e in events[i:a]:
            report.problem("extra op", f"{e['op']} (id {e['id']}) is not in PyTorch's log")
        for n in nodes[j:b]:
            report.problem("missing op", f"{n.op} (rf_id {n.rf}) under {n.parent.op if n.parent else 'nothing'} was not seen")
        i, j = a, b
    return pairs


# Values


def float_text(value):
    """A float as the log writes it: std::to_string, six decimals."""
    value = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.get(value, value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return repr(value)
    return "%.6f" % value


def same_float(seen, truth):
    if isinstance(truth, str):
        return seen == truth.lstrip("-") if "nan" in truth else seen == truth
    return float_text(seen) == truth.text


def same_scalar(seen, want):
    if want["type"] == "Double":
        return isinstance(seen, (float, str)) and same_float(seen, want["value"])
    if want["type"] == "Bool":
        return seen is want["value"]
    if want["type"] == "Int":
        return type(seen) is int and seen == want["value"]
    return type(seen) is int  # UInt: the log has no value


class Values:
    """Compares the values of one pair."""

    def __init__(self, report, event):
        self.report, self.event, self.bases = report, event, []

    def wrong(self, where, seen, truth):
        self.report.differ("wrong value", self.event, where, seen, truth)

    def compare(self, seen, want, where):
        self.report.counts["values"] += 1
        if seen["kind"] == "not_decoded":
            self.not_decoded(seen.get("reason"), where, want)
        elif want["kind"] == "unknown":
            self.wrong(where, seen, want)
        elif want["kind"] == "list":
            self.compare_list(seen, want, where)
        elif want["kind"] == "tensor":
            self.compare_tensor(seen, want, where)
        elif want["kind"] != seen["kind"]:
            self.wrong(where, seen, want)
        elif want["kind"] == "scalar":
            if not same_scalar(seen["value"], want):
                self.wrong(where, seen["value"], want)
        elif "value" in want and not self.same_plain(seen["value"], want):
            self.wrong(where, seen["value"], want["value"])

    def not_decoded(self, reason, where, truth):
        self.report.counts["not decoded"] += 1
        self.report.reasons[reason] += 1
        if reason not in NOT_DECODED:
            self.report.differ("not decoded", self.event, where, reason, truth)

    @staticmethod
    def same_plain(seen, want):
        if want["kind"] == "float":
            return same_float(seen, want["value"])
        return type(seen) is type(want["value"]) and seen == want["value"]

    def compare_list(self, seen, want, where):
        if seen["kind"] != "list":
            return self.wrong(where, seen, want)
        items = seen["items"]
        if len(items) < len(want["items"]) or len(items) > len(want["items"]) and not want["cut"]:
            return self.wrong(where, f"{len(items)} items", f"{len(want['items'])} items")
        for i, item in enumerate(want["items"]):
            self.compare(items[i], item, f"{where}[{i}]")

    def compare_tensor(self, seen, want, where):
        if seen["kind"] != "tensor":
            return self.wrong(where, seen, want)
        for key in ("dtype", "shape", "stride", "numel", "storage_offset", "device"):
            if key in want and seen[key] is None:
                self.not_decoded(f"a tensor's {key}", where, want)
            elif key in want and seen[key] != want[key]:
                self.wrong(f"{where}.{key}", seen[key], want[key])
        if "storage" in want and seen["data_ptr"] is not None:
            self.check_pointer(seen, want, where)

    def check_pointer(self, seen, want, where):
        """Storages have different addresses in each run, but the same ones coincide within an op."""
        if want["numel"] == 0 or want["device"] == "meta":
            return
        base = seen["data_ptr"] - want["storage_offset"] * want["itemsize"]
        for other_base, storage in self.bases:
            if (base == other_base) != (storage == want["storage"]):
                return self.wrong(f"{where}.data_ptr", hex(seen["data_ptr"]), "another storage")
        self.bases.append((base, want["storage"]))


def compare_part(report, event, part, seen, wants, schema):
    if len(seen) != len(wants):
        return report.differ("wrong value", event, part, f"{len(seen)} values", f"{len(wants)} values")
    values = Values(report, event)
    for i, (s, w) in enumerate(zip(seen, wants)):
        name = schema[i][1] if i < len(schema) else ""
        if name and s["name"] != name:
            report.differ("wrong name", event, f"{part}[{i}]", s["name"], name)
        values.compare(s, w, f"{part} {name or i}")


def in_backward(node):
    while node and node.kind != "backward" and not node.op.startswith(pytorch_log.EVALUATE):
        node = node.parent
    return node is not None


def compare_pair(report, event, node):
    phase = "backward" if in_backward(node) else "forward"
    report.counts["backward" if node.kind == "backward" else "ops"] += 1
    if event["phase"] != phase:
        report.differ("wrong phase", event, "phase", event["phase"], phase)
    if node.kind == "op":
        compare_part(report, event, "args", event["args"], node.args, node.schema.args)
        compare_part(report, event, "results", event["results"], node.results, node.schema.results)
    elif node.kind == "backward":
        seen = event["args"][0]["items"] if event["args"] else []  # grad_outputs, one list
        compare_part(report, event, "args", seen, node.args, ())


def compare_parents(report, pairs):
    number = {e["id"]: i for i, (e, _) in enumerate(pairs)}
    place = {n: i for i, (_, n) in enumerate(pairs)}
    names = {i: n.op for i, (_, n) in enumerate(pairs)}
    for e, n in pairs:
        seen = number.get(e["kept_parent"])
        allowed = [place.get(p) for p in n.parents]
        if seen not in allowed:
            report.differ("wrong parent", e, "parent", names.get(seen), [names.get(a) for a in allowed])


def compare_forward_ids(report, pairs):
    """A node has the sequence number that was next when its op started: its forward op is the last one with this number
    that started before the node was created. An op around that one is right, too."""
    made = {}
    event_of = {n: e for e, n in pairs}
    functions = [(f["id"], m.op) for f, m in pairs if m.kind == "function"]
    for e, n in pairs:
        if n.kind == "op" and n.seq >= 0:
            made[n.tid, n.seq] = n
        if n.kind != "backward" or (n.forward_tid, n.seq) not in made:
            continue
        op = made[n.forward_tid, n.seq]
        right = []
        while op:
            right += [event_of[op]["id"]] if op in event_of else []
            op = op.parent
        report.counts["forward ids"] += 1
        # An autograd.Function's forward has no schema: it is identified by its name.
        right += [f for f, op in functions if op + "Backward" == n.op and f < e["id"]]
        if not e["forward_id"]:
            report.counts["forward ids not known"] += 1
        elif e["forward_id"] not in right:
            report.differ("wrong forward_id", e, "forward_id", e["forward_id"], right)


# What ops state about themselves


def check_tags(events, report):
    for e in events:
        if e["op"] == "aten::add.Tensor" and e["args"][2].get("value") in (1000, 1001, 1002, 1003):
            flags = e["args"][2]["value"] - 1000
            check_tag(report, e, e["args"][0], "requires_grad", bool(flags & 2))
            check_tag(report, e, e["args"][1], "requires_grad", bool(flags & 1))
        if e["op"] == "ditrace_tag::tag":
            # The log has this argument, too: if it is not decoded, it is counted there.
            for pair in filter(None, e["args"][1].get("value", "").split(";")):
                key, _, value = pair.partition("=")
                is_text = key in ("dtype", "layout", "device")
                check_tag(report, e, e["args"][0], key, value if is_text else json.loads(value.lower()))


def check_tag(report, event, seen, key, value):
    report.counts["tags"] += 1
    if seen["kind"] == "tensor" and seen.get(key) is None:
        report.counts["not decoded"] += 1
    elif seen["kind"] != "tensor" or seen.get(key) != value:
        report.differ("wrong tag", event, key, seen.get(key, seen["kind"]), value)


def compare(events, nodes, min_ops=1):
    report = Report()
    check_order(events, report)
    check_tags(events, report)
    region = event_region(events, report)
    logged, records = truth_region(nodes)
    names = {e["op"] for e in region if e["phase"] == "forward" and "::" not in e["op"]}
    never = unobserved(nodes)
    void = without_results(nodes)
    pairs = align(kept_events(region, never, void), kept_nodes(logged, names), report)
    for event, node in pairs:
        compare_pair(report, event, node)
    compare_parents(report, pairs)
    compare_forward_ids(report, pairs)
    thrown = sum(e["thrown"] and e["op"] not in void for e in region)
    if thrown != records - len(logged):
        report.problem("thrown", f"{thrown} ops marked as thrown, PyTorch's log lacks {records - len(logged)}")
    if len(pairs) < min_ops:
        report.problem("region", f"only {len(pairs)} ops compared")
    left_out = collections.Counter(e["op"] for e in region if e["op"].partition(".")[0] in never)
    notes = [f"PyTorch never logs {op}: {n} calls not compared" for op, n in left_out.items()]
    return report.finish(notes + [f"PyTorch does not log ops that throw: {thrown} counted, not compared"])


def main():
    gc.disable()  # scanning the objects that stay to the end takes as long as all else
    p = argparse.ArgumentParser()
    p.add_argument("events")
    p.add_argument("truth")
    p.add_argument("--min-ops", type=int, default=1, help="fail when fewer are compared")
    args = p.parse_args()
    return compare(read_events(args.events), pytorch_log.read(args.truth), args.min_ops)


if __name__ == "__main__":
    sys.exit(main())
