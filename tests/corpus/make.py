#!/usr/bin/env python3
"""Writes the corpus: captures whose results come from correct kernels and from wrong ones.

    make.py FOLDER [--seeds N] [--sizes N] [--part 0-7] [--ranges] [--ops NAME,...]

FOLDER/KIND/... are captures as ditorch makes them; FOLDER/cases.json says for each what it is, how far
the fault moves the exact result, and what other rules say of it. A part has all dtypes, and each op with each
dtype is in one of the eight. With --ranges it is the ops of ranges.py. What other rules say is left out of a part and of
--ops."""

import argparse
import json
import os
import sys
import warnings

import torch

from kernels import CALLS, OPS
from ranges import RANGES, VARIANTS

warnings.filterwarnings("ignore")
ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
DIGITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}
# Mantissa bits of the inputs that a kernel with less precision would take: TF32, 8-bit floats, bfloat16.
LESS = {torch.float32: 11, torch.bfloat16: 4, torch.float16: 8}


def round_to(x, digits):
    m, e = torch.frexp(x.double())
    return torch.ldexp(torch.round(m * 2.0**digits), e - digits)


# --- faults that any kernel may have; on the result `r` (its own dtype) with the reference `ref`

def one_wrong(r, ref, gen, how):
    r = r.clone()
    flat, size = r.reshape(-1), ref.abs().reshape(-1)
    large = torch.nonzero(size >= size.median())[:, 0]
    at = large[torch.randint(len(large), (1,), generator=gen)]
    if how == "zero":
        flat[at] = 0
    elif how == "neighbour":
        flat[at] = flat[(at + 1) % len(flat)]
    else:
        flat[at] = flat[at] * 1.25
    return flat.reshape(r.shape)


def bias(r, ref, gen):
    return (r.double() * (1 + 6 * ROUNDOFF[r.dtype])).to(r.dtype)


def offset(r, ref, gen):
    return (r.double() + 6 * ROUNDOFF[r.dtype] * ref.pow(2).mean().sqrt()).to(r.dtype)


def zero_tail(r, ref, gen):
    r = r.clone()
    flat = r.reshape(-1)
    flat[-max(1, len(flat) // 32):] = 0
    return flat.reshape(r.shape)


def swap_rows(r, ref, gen):
    rows = r.reshape(-1, r.shape[-1]).clone()
    rows[[0, len(rows) // 2]] = rows[[len(rows) // 2, 0]]
    return rows.reshape(r.shape)


def stale_block(r, ref, gen):
    r = r.clone()
    flat = r.reshape(-1)
    n = max(1, len(flat) // 16)
    flat[n:2 * n] = flat[:n].clone()
    return flat.reshape(r.shape)


def one_nan(r, ref, gen):
    r = r.clone()
    r.reshape(-1)[torch.randint(r.numel(), (1,), generator=gen)] = float("nan")
    return r


def one_of_any_size(r, ref, gen):
    """By 5 %: an element that may be far smaller than the others, but no subnormal one."""
    r = r.clone()
    flat = r.reshape(-1)
    normal = torch.nonzero(flat.abs() >= torch.finfo(r.dtype).tiny)[:, 0]
    if len(normal):
        at = normal[torch.randint(len(normal), (1,), generator=gen)]
        flat[at] = flat[at] * 1.05
    return flat.reshape(r.shape)


def general_faults(op):
    if op in RANGES:
        return {"one x1.05": one_of_any_size, "scaled": bias, "zero tail": zero_tail}
    faults = {"one x1.25": lambda *a: one_wrong(*a, "scale"), "one zero": lambda *a: one_wrong(*a, "zero"),
              "one neighbour": lambda *a: one_wrong(*a, "neighbour"), "scaled": bias, "shifted": offset,
              "zero tail": zero_tail, "stale block": stale_block, "one NaN": one_nan}
    if op.rows:
        faults["swapped rows"] = swap_rows
    return faults


def cast(args, dtype):
    return tuple(a.to(dtype) if a.is_floating_point() else a for a in args)


def run_grads(op, function, args, gen_seed):
    """(result, gradients of op.grad) of `function` with a fixed gradient of the result."""
    args = tuple(a.detach().clone().requires_grad_(i in op.grad) if a.is_floating_point() else a for i, a in enumerate(args))
    r = function(*args)
    g = torch.randn(r.shape, generator=torch.Generator().manual_seed(gen_seed)).to(torch.bfloat16)
    grads = torch.autograd.grad(r, [args[i] for i in op.grad], g.to(r.dtype))
    return r.detach(), [x.detach() for x in grads], g


# --- other rules, each as it stands

def ditorch(r, ref):
    tolerance = {torch.float16: 1e-4, torch.bfloat16: 1e-3, torch.float32: 1e-5}[r.dtype]
    return torch.allclose(r, ref.to(r.dtype), atol=tolerance, rtol=tolerance, equal_nan=True)


def assert_close(r, ref):
    try:
        torch.testing.assert_close(r, ref.to(r.dtype), equal_nan=True)
    except AssertionError:
        return False
    return True


def msprobe(r, ref):
    """hiascend.com, AImpug_000197: cosine below 0.99 and a largest error above 0.001, or cosine below 0.9, or a
    largest error above 1."""
    a, b = r.double().reshape(-1), ref.reshape(-1)
    worst = float((a - b).abs().max())
    cosine = float(torch.nn.functional.cosine_similarity(a, b, dim=0))
    return not (cosine < 0.99 and worst > 0.001 or cosine < 0.9 or worst > 1 or worst != worst or cosine != cosine)


def dynamo(r, ref, cpu):
    try:
        from torch._dynamo.utils import same
    except ImportError:
        return None
    import logging
    logging.disable(logging.CRITICAL)
    return bool(same(cpu, r, ref, tol=1e-3 if r.dtype != torch.float32 else 1e-4, equal_nan=True))


def rules(r, ref, cpu):
    return dict(ditorch=ditorch(r, ref), assert_close=assert_close(r, ref), msprobe=msprobe(r, ref), dynamo=dynamo(r, ref, cpu))


def moved(fault64, ref, dtype):
    """How far the fault moves the exact result, at most, in spacings of the dtype."""
    if not torch.isfinite(fault64).all():
        return 1e300
    _, e = torch.frexp(ref)
    spacing = torch.ldexp(torch.ones_like(ref), e - DIGITS[dtype])
    return float(((fault64 - ref).abs() / spacing.clamp_min(1e-300))[ref != 0].max()) if bool((ref != 0).any()) else 0.0


def beyond_cpu(result, ref, cpu):
    """How far a fault moves the result, at most, in errors that the CPU's has at that element."""
    change, own = (result.double() - cpu.double()).abs(), (cpu.double() - ref).abs()
    return float(torch.nan_to_num(change / own, nan=0.0, posinf=1e300).max())


class Corpus:
    def __init__(self, root, with_rules):
        self.root, self.cases, self.n = root, [], 0
        self.rules = rules if with_rules else lambda *_: dict.fromkeys(("ditorch", "assert_close", "msprobe", "dynamo"))

    def save(self, folder, part, name, args, kwargs=None):
        torch.save({"name": name, "args": tuple(args), "kwargs": kwargs or {}, "identifier": part}, os.path.join(folder, part + ".pth"))

    def begin(self, op, args):
        """The inputs that several cases share."""
        call, kwargs = op.call(*args) if op in RANGES else CALLS[op.name](*args) if op.name in CALLS else (args, {})
        self.shared = os.path.join(self.root, "inputs.tmp")
        os.makedirs(self.shared, exist_ok=True)
        if os.path.exists(os.path.join(self.shared, "input.pth")):
            os.unlink(os.path.join(self.shared, "input.pth"))  # the cases before have links to it
        self.save(self.shared, "input", op.name, call, kwargs)

    def add(self, op, what, kind, dtype, size, result, ref, cpu, fault64=None, grads=None):
        """grads: (name of the place, gradients by place, grad_output, reference, the CPU's)."""
        self.n += 1
        folder = os.path.join(self.root, "captures", op.name, "1", str(self.n), "2026-01-01-00-00-00")
        os.makedirs(folder)
        os.link(os.path.join(self.shared, "input.pth"), os.path.join(folder, "input.pth"))
        self.save(folder, "output", op.name, (result,))
        judged, judged_ref, judged_cpu = result, ref, cpu
        if grads:
            given, judged, judged_ref, judged_cpu, out = grads
            self.save(folder, "grad_inputs", op.name, given)
            self.save(folder, "grad_outputs", op.name, (out,))
        far = moved(fault64, judged_ref, dtype) if fault64 is not None else None
        if far is not None and op in RANGES:
            far = min(far, beyond_cpu(judged, judged_ref, judged_cpu))
        self.cases.append(dict(id=self.n, op=op.name, what=what, kind=kind, dtype=str(dtype)[6:], size=size, moved=far,
                               role="grad" if grads else "output", **self.rules(judged, judged_ref, judged_cpu)))


def forward_cases(c, op, args, dtype, size, seed):
    ref = op.function(*cast(args, torch.float64))
    try:
        cpu = op.function(*args)
    except RuntimeError:  # no such kernel on this CPU
        cpu = op.function(*cast(args, torch.float32)).to(dtype)
    exact = ref.to(dtype)
    c.begin(op, args)
    c.add(op, "correct", "cpu", dtype, size, cpu, ref, cpu)
    c.add(op, "correct", "rounded once", dtype, size, exact, ref, cpu)
    if dtype != torch.float32:
        c.add(op, "correct", "float32", dtype, size, op.function(*cast(args, torch.float32)).to(dtype), ref, cpu)
    for kind, kernel in op.correct.items():
        c.add(op, "correct", kind, dtype, size, kernel(*args), ref, cpu)
    for kind, run in VARIANTS.items() if op in RANGES else ():
        try:
            r = run(op.function, args)
        except RuntimeError:  # no such kernel
            continue
        if not torch.equal(r, cpu):
            c.add(op, "correct", kind, dtype, size, r, ref, cpu)
    for kind, kernel in op.faults.items():
        c.add(op, "fault", kind, dtype, size, kernel(*args), ref, cpu, kernel(*cast(args, torch.float64)))
    less = [round_to(a, LESS[dtype]) if a.is_floating_point() else a for a in args]
    c.add(op, "fault", "low-precision inputs", dtype, size, op.function(*less).to(dtype), ref, cpu, op.function(*less))
    for i, (kind, fault) in enumerate(general_faults(op).items()):
        gen = torch.Generator().manual_seed(1000 * seed + i)
        wrong = fault(cpu, ref, gen)
        # What the fault does to the exact result: the same change, from the unrounded one.
        c.add(op, "fault", kind, dtype, size, wrong, ref, cpu, torch.where(wrong == cpu, ref, wrong.double()) if kind not in (
            "scaled", "shifted") else fault64_of(kind, ref, dtype))


def fault64_of(kind, ref, dtype):
    if kind == "scaled":
        return ref * (1 + 6 * ROUNDOFF[dtype])
    return ref + 6 * ROUNDOFF[dtype] * ref.pow(2).mean().sqrt()


class Edges:
    """Which place the gradient of an argument has among those that the node of the result gives."""

    def __init__(self, op, args):
        made = tuple(a.detach().clone().requires_grad_(i in op.grad) if a.is_floating_point() else a for i, a in enumerate(args))
        r = op.function(*made)
        seen = []
        r.grad_fn.register_hook(lambda gi, go: seen.append(gi))
        g = torch.ones_like(r) * torch.arange(1, r.numel() + 1, dtype=r.dtype).reshape(r.shape).sin()
        leaf = torch.autograd.grad(r, [made[i] for i in op.grad], g)
        self.places = {}
        for k, x in enumerate(leaf):
            for i, e in enumerate(seen[0]):
                if e is not None and e.shape == x.shape and torch.equal(e, x) and i not in self.places.values():
                    self.places.setdefault(k, i)
        self.n = len(seen[0])

    def row(self, grads):
        row = [None] * self.n
        for k, g in enumerate(grads):
            if k in self.places:
                row[self.places[k]] = g
        return tuple(row)


def backward_cases(c, op, args, dtype, size, seed):
    edges = Edges(op, cast(args, torch.float64))
    if not edges.places:
        return
    ref_out, ref, g = run_grads(op, op.function, cast(args, torch.float64), seed)
    out32, in32, _ = run_grads(op, op.function, cast(args, torch.float32), seed)
    try:
        out, cpu, _ = run_grads(op, op.function, args, seed)
    except RuntimeError:
        out, cpu = out32.to(dtype), [x.to(dtype) for x in in32]
    call = tuple(a.detach().clone().requires_grad_(i in op.grad) if a.is_floating_point() else a for i, a in enumerate(args))
    c.begin(op, call)
    g = g.to(out.dtype)

    def add(what, kind, grads, place, fault64=None):
        c.add(op, what, kind, dtype, size, out, ref_out, out, fault64, (edges.row(grads), grads[place], ref[place], cpu[place], g))

    first = next(iter(edges.places))
    add("correct", "cpu", cpu, first)
    add("correct", "rounded once", [x.to(dtype) for x in ref], first)
    if dtype != torch.float32:
        add("correct", "float32", [x.to(dtype) for x in in32], first)
    less = tuple(round_to(a, LESS[dtype]) if a.is_floating_point() else a for a in args)
    _, low, _ = run_grads(op, op.function, less, seed)
    for place in edges.places:
        if (low[place] != ref[place]).any():
            add("fault", "low-precision inputs", [x.to(dtype) for x in low], place, low[place])
        for i, (kind, fault) in enumerate(general_faults(op).items()):
            if cpu[place].dim() == 0 or kind == "swapped rows" and cpu[place].dim() < 2:
                continue
            gen = torch.Generator().manual_seed(77 + 1000 * seed + i)
            wrong = [fault(x, r, gen) if k == place else x for k, (x, r) in enumerate(zip(cpu, ref))]
            add("fault", kind, wrong, place, torch.where(wrong[place] == cpu[place], ref[place], wrong[place].double())
                if kind not in ("scaled", "shifted") else fault64_of(kind, ref[place], dtype))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder")
    p.add_argument("--seeds", type=int, default=2)
    p.add_argument("--sizes", type=int, default=3)
    p.add_argument("--part", type=int)
    p.add_argument("--ranges", action="store_true")
    p.add_argument("--ops")
    args = p.parse_args()
    torch.set_num_threads(1)
    c = Corpus(args.folder, args.part is None and not args.ops)
    ops = [op for op in (RANGES if args.ranges else OPS) if not args.ops or op.name in args.ops.split(",")]
    for op in ops:
        for n, dtype in enumerate((torch.float32, torch.bfloat16, torch.float16)):
            if args.part is not None and (len(op.name) + n) % 8 != args.part:
                continue
            for seed in range(args.seeds):
                for size in op.sizes if args.ranges else op.sizes[:args.sizes] if args.sizes > 1 else op.sizes[1:2]:
                    gen = torch.Generator().manual_seed(100 * seed + 1)
                    made = cast(op.make(gen, size), dtype)
                    forward_cases(c, op, made, dtype, size, seed)
                    backward_cases(c, op, made, dtype, size, seed)
    with open(os.path.join(args.folder, "cases.json"), "w") as f:
        json.dump(c.cases, f)
    print(f"{len({op.name for op in ops})} ops, {len(c.cases)} cases: {sum(x['what'] == 'correct' for x in c.cases)} correct, "
          f"{sum(x['what'] == 'fault' for x in c.cases)} faults", file=sys.stderr)


if __name__ == "__main__":
    main()
