#!/usr/bin/env python3
"""Compares the captures below ROOT with what the program saved of the same calls itself
(workloads/capture/captured.py): compare_captures.py ROOT OWN"""

import glob
import json
import os
import struct
import sys

import torch

root, own = sys.argv[1:]


def load(path):
    try:
        return torch.load(path, weights_only=False)
    except TypeError:
        return torch.load(path)


def fail(*what):
    raise AssertionError(" ".join(map(str, what)))


def storage_of(t):
    s = t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage()._storage
    raw = torch.empty(0, dtype=torch.uint8).set_(s, 0, (s.nbytes(),)) if s.nbytes() else torch.empty(0, dtype=torch.uint8)
    return s, raw


class Comparison:
    """Compares the values of one file: each equal, and sharing storages in the same way."""

    def __init__(self):
        self.pairs, self.tensors = {}, 0

    def tensor(self, got, want, what):
        for f in ("dtype", "shape", "requires_grad", "layout", "device"):
            if getattr(got, f) != getattr(want, f):
                fail(what, f, getattr(got, f), "is not", getattr(want, f))
        if got.stride() != want.stride() or got.storage_offset() != want.storage_offset():
            fail(what, "strides", got.stride(), got.storage_offset(), want.stride(), want.storage_offset())
        (a, x), (b, y) = storage_of(got), storage_of(want)
        if want.numel() and not torch.equal(x, y):
            fail(what, "bytes differ", len(x), len(y))
        if want.numel() and self.pairs.setdefault(("own", b._cdata), a._cdata) != a._cdata:
            fail(what, "shares no storage as it should")
        if want.numel() and self.pairs.setdefault(("got", a._cdata), b._cdata) != b._cdata:
            fail(what, "shares a storage that it should not")
        self.tensors += 1

    def same(self, got, want, what):
        if isinstance(want, torch.Tensor):
            if not isinstance(got, torch.Tensor):
                fail(what, got, "is no tensor")
            return self.tensor(got, want, what)
        if isinstance(got, torch.Tensor) and not isinstance(want, (list, tuple)):  # a number converted to a tensor
            return self.same(got.item(), want, what) if got.dim() == 0 else fail(what, got)
        if isinstance(got, list) and isinstance(want, int) and len(got) == 1:  # int[1]
            return self.same(got[0], want, what)
        if isinstance(want, (list, tuple)):
            if len(got) != len(want):
                fail(what, "has", len(got), "items, not", len(want))
            for i, (a, b) in enumerate(zip(got, want)):
                self.same(a, b, f"{what}[{i}]")
        elif isinstance(want, float):
            if struct.pack("d", got) != struct.pack("d", want):
                fail(what, got, want)
        elif type(got) is not type(want) or got != want:
            fail(what, got, "is not", want)


def compare(part, got, n, what, of):
    c = Comparison()
    want = load(os.path.join(own, f"{n}.{part}.pth"))
    if part == "input":
        c.same(got["args"], want["args"], what)
        if set(got["kwargs"]) != set(want["kwargs"]):
            fail(what, got["kwargs"], want["kwargs"])
        for k in want["kwargs"]:
            c.same(got["kwargs"][k], want["kwargs"][k], f"{what} {k}")
    elif part == "output":
        c.same(got["args"], (want,), what)
    else:
        c.same(got["args"], want, what)
        if part == "grad_inputs" and got.get("of") != of:
            fail(what, "of", got.get("of"), of)
    return c.tensors


def main():
    with open(os.path.join(own, "calls.json")) as f:
        calls = json.load(f)
    folders = glob.glob(os.path.join(root, "op_tools_results/op_capture_results/*/*/*/*"))
    folders.sort(key=lambda f: int(f.split("/")[-2]))
    names = [f.split("/")[-4] for f in folders]
    for i, (got, c) in enumerate(zip(names, calls)):
        if got != c["op"]:
            fail("call", i, "is", got, "and not", c["op"])
    if len(names) != len(calls):
        fail(len(names), "calls are captured, not", len(calls))
    tensors = 0
    problems = []
    for n, (folder, c) in enumerate(zip(folders, calls)):
        want = {"input", "output"} | ({"grad_outputs", "grad_inputs"} if c["backward"] else set())
        if not c["apart"]:
            want.discard("grad_inputs")
        got = {os.path.basename(f)[:-4] for f in glob.glob(folder + "/*.pth")}
        if got != want:
            problems.append((folder, "has", sorted(got), "and not", sorted(want)))
        for part in sorted(got & want):
            try:
                tensors += compare(part, load(f"{folder}/{part}.pth"), n, f"{folder} {part}", c.get("of") and tuple(c["of"]))
            except AssertionError as e:
                problems.append((e,))
    for p in problems[:20]:
        print(*p)
    print("#", len(calls), "calls,", tensors, "tensors,", sum(c["backward"] for c in calls), "with gradients")
    sys.exit(bool(problems))


main()
