#!/usr/bin/env python3
"""Captures of workloads/capture/halves.py below ROOT are in ditorch's format, and run again by their names:
ditorch_captures.py ROOT"""

import collections
import glob
import json
import os
import re
import sys

import torch

PARTS = ["grad_inputs", "grad_outputs", "input", "output"]
CALLS = {"torch.mul": 2, "torch.add": 2, "torch.sub": 2, "torch.div": 2, "torch.sort": 2, "torch.sum": 2, "torch.Tensor.to": 4,
         "torch.nn.functional.linear": 1}
OF_PARTS = {"torch.Tensor.to", "torch.nn.functional.linear"}  # their backward nodes belong to other ops
root = sys.argv[1] + "/op_tools_results/op_capture_results/"


def check(ok, *what):
    if not ok:
        raise AssertionError(" ".join(map(str, what)))


def load(path):
    try:
        return torch.load(path, weights_only=False)
    except TypeError:
        return torch.load(path)


def described(v):
    """How ditorch's JSON describes a value (op_tools/save_op_args.py), without addresses."""
    if isinstance(v, torch.Tensor):
        return {"device": "cpu", "dtype": str(v.dtype)[6:], "numel": v.numel(), "shape": str(tuple(v.shape)),
                "stride": list(v.stride()), "requires_grad": v.requires_grad, "layout": "torch.strided"}
    return [described(x) for x in v] if isinstance(v, (list, tuple)) else str(v)


def without_addresses(v):
    if isinstance(v, dict):
        check("dtype" not in v or v.pop("data_ptr") > 4096, "data_ptr", v)
        return {k: without_addresses(x) for k, x in v.items()}
    return [without_addresses(x) for x in v] if isinstance(v, list) else v


def is_in_form(folder, part, content):
    path = folder + "/" + part
    *_, op, pid, number, when = folder.split("/")
    own = ["of"] if part == "grad_inputs" and op in OF_PARTS else []
    check(list(content) == ["name", "args", "kwargs", "identifier"] + own, path, list(content))
    check(content["name"] == op and content["identifier"] == f"{number}/{when}/{part}", path, content["identifier"])
    check(pid.isdigit() and re.fullmatch(r"\d{4}(-\d\d){5}", when), path)
    with open(path + ".pth.json") as f:
        text = f.read()
    got = json.loads(text)
    check(text == json.dumps(got, indent=4), path, "JSON is not indented as ditorch's")
    want = {"args": described(content["args"]), "op": op}
    if content["kwargs"]:
        want["kwargs"] = {k: described(v) for k, v in content["kwargs"].items()}
    # Besides ditorch's members: the line that made the call, and the arguments that the gradients belong to.
    place = [got.pop(k, None) for k in ("file", "function", "line")]
    check(got.pop("of", None) == (list(content["of"]) if own else None), path, "of")
    check(os.path.basename(place[0] or "") == "halves.py" and place[2], path, place)
    # The interpreter, which is that of this test, and for gradients the node whose edges they belong to.
    check(got.pop("python", None) == sys.executable and got.pop("python_changed", None), path, got)
    check(("Backward" in got.pop("node", "")) == (part.startswith("grad_") and not own), path, "node")
    check(without_addresses(got) == want, path, got, want)


def same(got, want, what):
    if isinstance(want, (list, tuple)):
        check(len(got) == len(want), what, "length")
        for a, b in zip(got, want):
            same(a, b, what)
    elif want is not None and got is not None:  # a gradient that nobody needs is None in the capture
        check(got.dtype == want.dtype and torch.equal(got, want), what, got, want)


def run_again(folder, contents):
    op = torch
    for name in contents["input"]["name"].split(".")[1:]:
        op = getattr(op, name)
    args = [a.detach().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in contents["input"]["args"]]
    out = op(*args, **contents["input"]["kwargs"])
    results = tuple(out) if isinstance(out, tuple) else (out,)
    want = contents["output"]["args"]
    same(results, want[0] if isinstance(out, tuple) else want, folder)
    if "grad_inputs" not in contents:
        return
    needed = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    given = [(r, g) for r, g in zip(results, contents["grad_outputs"]["args"]) if g is not None]
    grads = torch.autograd.grad([r for r, _ in given], needed, [g for _, g in given])
    got = [g for g in contents["grad_inputs"]["args"] if g is not None]
    check(len(got) >= len(grads), folder, "gradients")
    same(got[:len(grads)], grads, folder + " gradients")


counts = collections.Counter()
for folder in sorted(glob.glob(root + "*/*/*/*")):
    op = folder.split("/")[-4]
    contents = {f.split("/")[-1][:-4]: load(f) for f in glob.glob(folder + "/*.pth")}
    check(sorted(contents) == PARTS, folder, sorted(contents))
    for part, content in contents.items():
        is_in_form(folder, part, content)
    run_again(folder, contents)
    counts[op] += 1
check(counts == CALLS, counts)
