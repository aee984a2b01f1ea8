#!/usr/bin/env python3
"""Writes captures of results that a device gave with less precision than the dtype has, as PyTorch's settings allow it to.

    devices.py FOLDER DEVICE [--sizes N]

Of cuda:0 the kernels are correct ones, and wrong ones are found; where DEVICE is cpu the former are faults, too. FOLDER is as make.py
makes it; judge.py tells what ditrace says of it."""
import argparse
import json
import os
import sys

import torch
import torch.nn.functional as F

from make import ROUNDOFF, one_wrong, round_to, zero_tail

TF32 = 2.0**-11
BACKWARD = "aten::_scaled_dot_product_flash_attention_backward"
SDPA = "torch.nn.functional.scaled_dot_product_attention"


def cut(t):
    return (t.float().contiguous().view(torch.int32) & -(1 << 13)).view(torch.float32).double()


def nearest(t):
    return round_to(t.float(), 11).double()


ROUNDINGS = {"cut off": (cut, cut), "nearest": (nearest, nearest), "one of both": (cut, nearest)}


def gradients(function, args, g, what=lambda t: t):
    """(result, gradients) in float64 of arguments and a gradient that are changed by what()."""
    made = [what(a).double().requires_grad_(True) for a in args]
    r = function(*made)
    return r.detach(), torch.autograd.grad(r, made, what(g).double())


def narrow_products(function, args, g):
    """{rounding: (result, gradients)} of float32. The bias, which no product has, is not rounded."""
    for name, (first, second) in ROUNDINGS.items():
        given = [first(args[0]), second(args[1]), *(a.double() for a in args[2:])]
        made = [a.requires_grad_(True) for a in given]
        r = function(*made)
        grads = [x.float() for x in torch.autograd.grad(r, made, first(g))]
        if len(args) > 2:
            grads[2] = gradients(function, args, g)[1][2].float()
        yield name, r.detach().float(), grads


def in_parts(a, b, n, dtype):
    """a [.., K] times b [K, ..] in parts of K, each rounded."""
    size = -(-a.shape[-1] // n)
    return sum((x.float() @ y.float()).to(dtype).float() for x, y in zip(a.split(size, -1), b.split(size, 0))).to(dtype)


def split_products(function, args, g):
    x, w = args
    rows, grows = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
    for n in (2, 4, 16):
        r = in_parts(rows, w.t(), n, x.dtype).reshape(g.shape)
        yield f"in {n} parts", r, [in_parts(grows, w, n, x.dtype).reshape(x.shape), in_parts(grows.t(), rows, n, x.dtype)]


def bias_after(function, args, g):
    first = function(args[0].float(), args[1].float()).to(g.dtype)
    grads = [x.to(g.dtype) for x in gradients(function, args, g)[1]]
    yield "bias after", (first.float() + args[2].float().reshape(-1, *[1] * (args[1].dim() - 2))).to(g.dtype), grads


def fused(rounds, result):
    """Attention with its two products in what rounds() leaves of P and dS."""
    def kernel(q, k, v, g, causal):
        dtype = q.dtype
        q, k, v, g = (rounds(t.float()) for t in (q, k, v, g))
        scores = q @ k.transpose(-1, -2) * q.shape[-1]**-0.5
        if causal:
            scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
        p = torch.exp(scores - scores.amax(-1, keepdim=True))
        total = p.sum(-1, keepdim=True)
        o = ((rounds(p) @ v) / total).to(dtype)
        p = p / total
        ds = rounds(p * (g @ v.transpose(-1, -2) - (g * result(o)).sum(-1, keepdim=True)))
        scale = q.shape[-1]**-0.5
        return o, [(ds @ k * scale).to(dtype), (ds.transpose(-1, -2) @ q * scale).to(dtype), (rounds(p).transpose(-1, -2) @ g).to(dtype)]
    return kernel


def fused_attention(causal):
    def kernels(function, args, g):
        dtype = g.dtype
        if dtype == torch.float32:
            for name, (first, _) in list(ROUNDINGS.items())[:2]:
                yield (name, *fused(lambda t, f=first: f(t).float(), lambda o: o)(*args, g, causal))
        else:
            yield ("fused", *fused(lambda t: t.to(dtype).float(), lambda o: o.float())(*args, g, causal))
    return kernels


def cases():
    """(name, function, makes its arguments, the kernels, how its arguments are captured, dtypes)"""
    def normal(gen, *shape):
        return torch.randn(shape, generator=gen)

    single, halves = (torch.float32,), (torch.bfloat16, torch.float16)
    yield ("torch.nn.functional.linear", F.linear, lambda g, s: (normal(g, 4, 24, 160) * s, normal(g, 64, 160) * 0.1, normal(g, 64)),
           narrow_products, {}, single)
    yield "torch.matmul", torch.matmul, lambda g, s: (normal(g, 96, 300).abs() * s, normal(g, 300, 40).abs()), narrow_products, {}, single
    yield "torch.bmm", torch.bmm, lambda g, s: (normal(g, 4, 20, 64) * s, normal(g, 4, 64, 30)), narrow_products, {}, single
    yield ("torch.nn.functional.conv2d", F.conv2d, lambda g, s: (normal(g, 2, 8, 14, 14) * s, normal(g, 12, 8, 3, 3) * 0.1, normal(g, 12)),
           narrow_products, {}, single)
    yield ("torch.nn.functional.linear", F.linear, lambda g, s: (normal(g, 4, 64, 512) * s, normal(g, 96, 512) * 0.1),
           split_products, {}, halves)
    yield ("torch.nn.functional.conv2d", F.conv2d, lambda g, s: (normal(g, 2, 3, 8, 8) * s, normal(g, 4, 3, 3, 3), normal(g, 4) * s),
           bias_after, {}, halves)
    for causal in (False, True):
        yield (SDPA, lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c),
               lambda g, s: tuple(normal(g, 2, 4, 33, 32) * s for _ in range(3)), fused_attention(causal),
               dict(is_causal=causal), single + halves)


class Writer:
    def __init__(self, root, device):
        self.root, self.is_device, self.cases, self.n = root, device != "cpu", [], 0
        torch.serialization.location_tag = lambda storage: device

    def save(self, folder, part, name, args, **more):
        torch.save(dict(name=name, args=tuple(args), identifier=part, **{"kwargs": {}, **more}), os.path.join(folder, part + ".pth"))

    def add(self, name, args, kwargs, g, result, grads, what, kind, size, role, of=None):
        self.n += 1
        folder = os.path.join(self.root, "captures", name, "1", str(self.n), "2026-01-01-00-00-00")
        os.makedirs(folder)
        self.save(folder, "input", name, args, kwargs=kwargs)
        self.save(folder, "output", name, result if isinstance(result, tuple) else (result,))
        if grads:
            self.save(folder, "grad_outputs", name, (g,))
            self.save(folder, "grad_inputs", name, grads, of=of or [str(i) for i in range(len(grads))])
        self.cases.append(dict(id=self.n, op=name, what=what, kind=kind, dtype=str(g.dtype)[6:], size=size, moved=1e9, role=role,
                               **dict.fromkeys(("ditorch", "assert_close", "msprobe", "dynamo"))))

    def faults(self, common, size, result, grads, roundoff, kind):
        of = [result, *grads]
        for what, place, wrong in faults_of(of, roundoff):
            changed = [wrong if i == place else x for i, x in enumerate(of)]
            self.add(*common, changed[0], changed[1:], "fault", what, size, "grad" if place else "output")

    def backward(self, dtype, size, causal):
        """The operator that is the backward of fused attention: its results are gradients."""
        gen = torch.Generator().manual_seed(5)
        q, k, v, g = ((torch.randn(2, 4, 33, 32, generator=gen) * size).to(dtype) for _ in range(4))
        o, grads = fused(lambda t: t.to(dtype).float(), lambda o: o.float())(q, k, v, g, causal)
        seed, lse = torch.zeros((), dtype=torch.int64), logsumexp(q.float(), k.float(), causal)
        common = (BACKWARD, (g, q, k, v, o, lse, None, None, 33, 33, 0.0, causal, seed, seed), {}, g)
        self.add(*common, tuple(grads), [], "correct", "fused backward", size, "output")
        for what, place, wrong in faults_of(grads, ROUNDOFF[dtype]):
            self.add(*common, tuple(wrong if i == place else x for i, x in enumerate(grads)), [], "fault", what, size, "output")


def logsumexp(q, k, causal):
    scores = q @ k.transpose(-1, -2) * q.shape[-1]**-0.5
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return (scores.masked_fill(~seen, float("-inf")) if causal else scores).logsumexp(-1)


def faults_of(results, roundoff):
    """(what, place, the wrong result)"""
    by = 1.1 if results[0].dtype == torch.bfloat16 else 1.05  # 5 % are no more than 13 of its roundoffs

    def scaled(r, *_):
        return (r.double() * (1 - 6 * roundoff)).to(r.dtype)

    def one(r, ref, gen):
        wrong = one_wrong(r, ref, gen, "zero")
        return torch.where(wrong == r, r, (r.double() * by).to(r.dtype))

    for what, fault in ((f"one x{by}", one), ("zero tail", zero_tail), ("scaled", scaled)):
        for place, right in enumerate(results):
            yield what, place, fault(right, right.double(), torch.Generator().manual_seed(place + 1))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder")
    p.add_argument("device")
    p.add_argument("--sizes", type=int, default=3)
    a = p.parse_args()
    torch.set_num_threads(1)
    w = Writer(a.folder, a.device)
    for name, function, make, kernels, kwargs, dtypes in cases():
        if name == SDPA and not hasattr(F, SDPA.rsplit(".", 1)[-1]):
            continue
        for dtype in dtypes if name != SDPA or w.is_device else (torch.float32,):  # the CPU's own rounds half types so
            for size in (1.0, 1e-3, 30.0)[:a.sizes]:
                gen = torch.Generator().manual_seed(5)
                args = [x.to(dtype).requires_grad_(True) for x in make(gen, size if name != SDPA else min(size, 4.0))]
                plain = [x.detach() for x in args]
                g = torch.randn(function(*(x.double() for x in plain)).shape, generator=gen).to(dtype)
                common = (name, args, kwargs, g)
                for kind, result, grads in kernels(function, plain, g):
                    w.add(*common, result, grads, "correct" if w.is_device else "fault", kind, size, "output")
                    if w.is_device:
                        w.faults(common, size, result, grads, TF32 if dtype == torch.float32 else ROUNDOFF[dtype], kind)
    for dtype in (torch.bfloat16, torch.float16) if w.is_device and hasattr(torch.ops.aten, BACKWARD[6:]) else ():
        for causal in (False, True):
            for size in (1.0, 4.0)[:a.sizes]:
                w.backward(dtype, size, causal)
    with open(os.path.join(a.folder, "cases.json"), "w") as f:
        json.dump(w.cases, f)
    print(f"{len(w.cases)} cases, {sum(c['what'] == 'fault' for c in w.cases)} faults", file=sys.stderr)


if __name__ == "__main__":
    main()
