#!/usr/bin/env python3
"""Writes captures of the CPU's own kernels whose sums depend on the number of threads: each has a part, and rounds it as its
dtype is, or the rows of a part are added up in another order.

    threads.py FOLDER [--sizes N] [--threads N,...] [--dtypes NAME,...]

What any number of threads gives is correct. FOLDER is as make.py makes it; judge.py tells what
ditrace says of it."""
import argparse
import json
import os
import sys

import torch
import torch.nn.functional as F

from devices import Writer
from make import one_wrong, zero_tail

FAR = 4  # times the largest error of a right kernel
SIZES = (1.0, 1e-3, 30.0)


def normal(gen, *shape):
    return torch.randn(shape, generator=gen)


def norm(gen, size, n, m):
    return normal(gen, n, m) * size, normal(gen, m) * 0.1 + 1, normal(gen, m) * 0.1


def channels_last(gen, size):
    x = (normal(gen, 8, 16, 24, 24) * size + size).contiguous(memory_format=torch.channels_last)
    return x, normal(gen, 16) * 0.1 + 1, normal(gen, 16) * 0.1


def rows(gen, n=2048):
    return torch.randint(0, 50, (n,), generator=gen)


def cases():
    """(name, makes its tensors, the arguments and keywords of these, dtypes, whether weights stay in float32)"""
    halves, all_of_them = (torch.bfloat16, torch.float16), (torch.float32, torch.bfloat16, torch.float16)
    for n, m in ((32, 32), (512, 64), (4096, 16)):
        for mixed in (False, True):
            yield ("torch.nn.functional.layer_norm", lambda g, s, n=n, m=m: norm(g, s, n, m),
                   lambda x, w, b: ((x, tuple(w.shape), w, b), {}), (torch.bfloat16,) if mixed else all_of_them, mixed)
    yield "torch.nn.functional.batch_norm", channels_last, lambda x, w, b: ((x, None, None, w, b, True), {}), all_of_them, False
    yield ("torch.nn.functional.group_norm", lambda g, s: (normal(g, 8, 16, 12, 12) * s + s, normal(g, 16) * 0.1 + 1, normal(g, 16) * 0.1),
           lambda x, w, b: ((x, 4, w, b), {}), all_of_them, False)
    yield ("torch.nn.functional.conv2d", lambda g, s: (normal(g, 8, 8, 24, 24) * s, normal(g, 8, 8, 3, 3) * 0.1, normal(g, 8)),
           lambda x, w, b: ((x, w, b), {"padding": 1}), (torch.float32, torch.bfloat16), False)
    yield ("torch.nn.functional.conv1d", lambda g, s: (normal(g, 8, 16, 512) * s, normal(g, 16, 1, 3) * 0.1, normal(g, 16)),
           lambda x, w, b: ((x, w, b), {"padding": 1, "groups": 16}), (torch.float32, torch.bfloat16), False)
    yield ("torch.nn.functional.prelu", lambda g, s: (normal(g, 64, 1024) * s, torch.full((1,), 0.25)), lambda x, w: ((x, w), {}),
           all_of_them, False)
    yield ("torch.nn.functional.embedding", lambda g, s: (rows(g), normal(g, 50, 32) * s), lambda i, w: ((i, w), {}), all_of_them, False)
    yield ("torch.index_add", lambda g, s: (normal(g, 50, 32) * s, rows(g), normal(g, 2048, 32) * s),
           lambda x, i, y: ((x, 0, i, y), {}), all_of_them, False)
    yield ("torch.index_put", lambda g, s: (normal(g, 50, 32) * s, rows(g), normal(g, 2048, 32) * s),
           lambda x, i, y: ((x, (i,), y, True), {}), all_of_them, False)
    yield "torch.sum", lambda g, s: (normal(g, 1 << 17) * s,), lambda x: ((x,), {}), halves, False
    yield "torch.softmax", lambda g, s: (normal(g, 1024, 64) * s,), lambda x: ((x, 0), {}), all_of_them, False
    yield ("torch.nn.functional.linear", lambda g, s: (normal(g, 2048, 32) * s, normal(g, 16, 32) * 0.1, normal(g, 16)),
           lambda x, w, b: ((x, w, b), {}), all_of_them, False)


def function_of(name):
    module, last = name.rsplit(".", 1)
    return getattr(F if module.endswith("functional") else torch, last)


class Call:
    def __init__(self, name, tensors, arguments):
        self.name, self.tensors, self.arguments = name, tensors, arguments

    def on(self, threads, g=None):
        """(result, gradients)"""
        made = [t.detach().requires_grad_(t.is_floating_point()) for t in self.tensors]
        args, kwargs = self.arguments(*made)
        torch.set_num_threads(threads)
        try:
            r = function_of(self.name)(*args, **kwargs)
            if g is None:
                return r.detach(), None
            return r.detach(), [x.detach() for x in torch.autograd.grad(r, [t for t in made if t.requires_grad], g)]
        finally:
            torch.set_num_threads(1)

    def in_float64(self):
        return Call(self.name, [t.double() if t.is_floating_point() else t for t in self.tensors], self.arguments)

    def captured(self):
        """(arguments, keywords, which of them the gradients are of)"""
        args, kwargs = self.arguments(*(t.detach().requires_grad_(t.is_floating_point()) for t in self.tensors))
        return args, kwargs, [str(i) for i, t in enumerate(args) if isinstance(t, torch.Tensor) and t.requires_grad]


def faults(grads, errors):
    """Those that are beyond what the kernels are off by themselves."""
    for what, fault in (("one x1.25", lambda *a: one_wrong(*a, "scale")), ("zero tail", zero_tail)):
        for place, right in enumerate(grads):
            wrong = fault(right, right.double(), torch.Generator().manual_seed(place + 2))
            if right.numel() > 1 and float((wrong.double() - right.double()).abs().max()) > FAR * errors[place]:
                yield what, [wrong if i == place else x for i, x in enumerate(grads)]


def different(runs):
    """{number of threads: (result, gradients)} without what another number of threads has given, too."""
    kept = {}
    for n, (r, grads) in runs.items():
        if not any(torch.equal(r, other) and all(map(torch.equal, grads, others)) for other, others in kept.values()):
            kept[n] = r, grads
    return kept


def write(w, call, size, counts):
    first = call.on(1)[0]
    g = torch.randn(first.shape, generator=torch.Generator().manual_seed(9)).to(first.dtype)
    args, kwargs, of = call.captured()
    runs = different({n: call.on(n, g) for n in counts})
    exact = call.in_float64().on(1, g.double())[1]
    errors = [max(float((grads[i].double() - e).abs().max()) for _, grads in runs.values()) for i, e in enumerate(exact)]
    for n, (result, grads) in runs.items():
        w.add(call.name, args, kwargs, g, result, grads, "correct", f"on {n} threads", size, "output", of)
    for what, wrong in faults(runs[counts[0]][1], errors):
        w.add(call.name, args, kwargs, g, runs[counts[0]][0], wrong, "fault", what, size, "grad", of)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder")
    p.add_argument("--sizes", type=int, default=3)
    p.add_argument("--threads", default="1,2,3,4,6,8,16")
    p.add_argument("--dtypes", default="float32,bfloat16,float16")
    a = p.parse_args()
    torch.set_num_threads(1)
    w = Writer(a.folder, "cpu")
    for name, make, arguments, dtypes, mixed in cases():
        for dtype in [d for d in dtypes if str(d)[6:] in a.dtypes.split(",")]:
            for size in SIZES[:a.sizes]:
                tensors = make(torch.Generator().manual_seed(5), size)
                tensors = [t.to(dtype) if t.is_floating_point() and not (mixed and i) else t for i, t in enumerate(tensors)]
                try:
                    write(w, Call(name, tensors, arguments), size, [int(n) for n in a.threads.split(",")])
                except RuntimeError as e:
                    if not any(text in str(e) for text in ("not implemented", "mixed dtype", "expected scalar type")):
                        raise
    with open(os.path.join(a.folder, "cases.json"), "w") as f:
        json.dump(w.cases, f)
    print(f"{len(w.cases)} cases, {sum(c['what'] == 'fault' for c in w.cases)} faults", file=sys.stderr)


if __name__ == "__main__":
    main()
