"""The arguments of ops in ditrace stack match those in a trace of the same calls, and most are known at some place in
the op's code: stack_arguments.py DITRACE PID EVENTS"""

import json
import subprocess
import sys

import jsonl


def text(v):
    if v["kind"] == "tensor":
        return "Tensor(%s)" % (", ".join(map(str, v["shape"])) + "," * (len(v["shape"]) == 1))
    if v["kind"] == "list":
        return "[%s]" % ", ".join(map(text, v["items"]))
    return "torch." * (v["kind"] == "dtype") + str(v["value"])


def said(a):
    return (tuple(a["shape"]), a["dtype"]) if a.get("shape") is not None else a.get("value")


def calls_of(events):
    """The values passed, by op and argument."""
    calls = {}
    for e in events:
        for a in e["args"] if e.get("op") else []:
            right = (tuple(a["shape"]), a["dtype"]) if a["kind"] == "tensor" else text(a)
            calls.setdefault((e["op"], a["name"]), set()).add(right)
    return calls


def threads_of(ditrace, pid):
    output = subprocess.run([ditrace, "stack", "--format", "json", pid], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(output)["threads"]


def judged(thread, calls):
    """Checks its arguments; {(op, argument): whether it is known}."""
    known = {}
    for a in thread["args"] or []:
        what = said(a)
        right = calls.get((thread["op"], a["name"]), set())
        if what is not None and what not in right:
            sys.exit(f"{thread['op']} {a}: not among {right or None}")
        known[thread["op"], a["name"]] = what is not None
    if thread["op_ns_least"] and thread["op_ns_least"] > 3e9:
        sys.exit(f"{thread['op']} is said to have run for {thread['op_ns_least']} ns")
    return known


def check(ditrace, pid, calls):
    known = {}
    for look in range(200):
        for t in threads_of(ditrace, pid):
            for argument, is_known in judged(t, calls).items():
                known[argument] = is_known or known.get(argument, False)
        ops = {op for op, _ in known}
        if len(ops) >= 8 and look >= 20:  # where a snapshot finds an op is random
            break
    print(f"# {len(ops)} ops, of {len(known)} arguments {sum(known.values())} known")
    return len(ops) >= 8 and sum(known.values()) > len(known) / 2


sys.exit(not check(*sys.argv[1:3], calls_of(jsonl.read(sys.argv[3]))))
