#!/usr/bin/env python3
"""Calls whose tensors' statistics are worked out in Python, an object a line in the file that is named.

    stats.py FILE

The calls are those of flip, mul_ and hypot, and of the backward of hypot; each line has the op, its kind,
and for each of its tensors what the statistics must be. Prints the last result, so that two runs can be
compared bit by bit.
"""

import ctypes
import ctypes.util
import json
import math
import sys

import torch

xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash"))
xxhash.XXH3_64bits.restype = ctypes.c_uint64
xxhash.XXH3_64bits.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
NAN, INF = math.nan, math.inf


def of(t):
    t = t.detach()
    c = t.clone(memory_format=torch.contiguous_format)
    x = t.reshape(-1)
    if x.is_complex():
        pairs = torch.view_as_real(x.to(torch.complex128)).tolist()
        x = [NAN if math.isnan(a) or math.isnan(b) else math.hypot(a, b) for a, b in pairs]
    else:
        x = (x.double() if x.is_floating_point() else x).tolist()
    finite = [float(v) for v in x if math.isfinite(v)]
    real = [v for v in x if not math.isnan(v)]
    n = len(finite)
    mean = math.fsum(finite) / n if n else NAN
    return {
        "count": len(x),
        "nan": len(x) - len(real),
        "inf": sum(v == INF for v in x),
        "neg_inf": sum(v == -INF for v in x),
        "zeros": sum(v == 0 for v in x),
        "min": float(min(real)) if real else NAN,
        "max": float(max(real)) if real else NAN,
        "mean": mean,
        "std": math.sqrt(math.fsum((v - mean) ** 2 for v in finite) / (n - 1)) if n > 1 else NAN,
        "norm": math.sqrt(math.fsum(v * v for v in finite)) if n or not x else NAN,
        "hash": "%016x" % xxhash.XXH3_64bits(c.data_ptr(), c.numel() * c.element_size()),
    }


def inputs():
    ints = torch.arange(-30, 30)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
        yield ints.to(dtype)
    yield torch.arange(0, 250, 7, dtype=torch.uint8)
    yield torch.tensor([True, False, True])
    x = torch.randn(7, 11)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64):
        yield x.to(dtype)
    yield x.t()
    yield x[1:6:2, ::3]
    yield x[3]
    yield x.expand(3, 7, 11)
    yield torch.empty(0, 4)
    yield torch.tensor([2.5])
    yield torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, INF])
    yield torch.tensor([NAN, NAN])
    yield torch.tensor([1e38, -1e38, 3e38])
    yield torch.randn(300, 257)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    out = open(sys.argv[1], "w")

    def tell(op, args, results):
        print(json.dumps({"op": op, "args": args, "results": results}), file=out)

    for x in inputs():
        y = x.flip(0)
        tell("aten::flip", [of(x)], [of(y)])
    for x in inputs():
        if x.dtype == torch.bool or x.numel() != x.clone().numel() or 0 in x.stride():
            continue
        before = of(x)
        three = torch.tensor(3, dtype=x.dtype)
        x.mul_(three)
        tell("aten::mul_.Tensor", [before, of(three)], [of(x)])
    for scale in (1.0, 1e30):
        a, b, g = (torch.randn(5, 6) for _ in range(3))
        a, b = (a * scale).requires_grad_(), (b * scale).requires_grad_()
        y = torch.hypot(a, b)
        tell("aten::hypot", [of(a), of(b)], [of(y)])
        y.backward(g)
        tell("HypotBackward0", [of(g)], [of(a.grad), of(b.grad)])
    out.close()
    print(y.sum().item().hex(), a.grad.sum().item().hex())


if __name__ == "__main__":
    main()
