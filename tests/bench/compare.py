#!/usr/bin/env python3
"""The comparison loops beside the same figures computed with torch ops, taking turns in one process.

    compare.py LIBRARY [--elements N] [--rounds R]

LIBRARY holds replay/numbers/compare*.c. Both compute allclose, max_abs_diff, max_relative_diff and the cosine;
the loops compute all their other figures besides. GB/s counts the bytes of the two tensors once.
"""

import argparse
import ctypes
import statistics
import time

import torch


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("ndim", ctypes.c_int),
                ("shape", ctypes.c_void_p), ("stride", ctypes.c_void_p)]


class Params(ctypes.Structure):
    _fields_ = [("atol", ctypes.c_double), ("rtol", ctypes.c_double), ("roundoff", ctypes.c_double),
                ("allowance", ctypes.c_void_p), ("floor", ctypes.c_double), ("threads", ctypes.c_uint)]


class Stats(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in "n unequal not_close nan_wrong inf_wrong finite".split()] + \
        [(n, ctypes.c_double) for n in "max_abs max_rel ulp dot aa bb worst sum sum2 along".split()] + \
        [(n, ctypes.c_uint64) for n in "first_unequal first_wrong max_abs_at worst_at".split()] + \
        [("a_at_worst", ctypes.c_double), ("b_at_worst", ctypes.c_double)]


CODES = {torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6, torch.float64: 7, torch.bfloat16: 15}


def describe(t):
    shape = (ctypes.c_int64 * t.dim())(*t.shape)
    stride = (ctypes.c_int64 * t.dim())(*t.stride())
    d = Tensor(t.data_ptr(), CODES[t.dtype], t.dim(), ctypes.addressof(shape), ctypes.addressof(stride))
    return d, (shape, stride)


def with_torch(a, b, atol=1e-5, rtol=1e-5):
    diff = torch.abs(a - b)
    return (torch.allclose(a, b, atol=atol, rtol=rtol, equal_nan=True), diff.max().item(),
            (diff / (a.abs() + 1e-6)).max().item(),
            torch.nn.functional.cosine_similarity(a.float().reshape(-1), b.float().reshape(-1), dim=-1).item())


def with_loops(lib, a, b, threads):
    da, keep_a = describe(a)
    db, keep_b = describe(b)
    p, s = Params(1e-5, 1e-5, 0, None, 0, threads), Stats()
    if lib.compare_tensors(ctypes.byref(da), ctypes.byref(db), ctypes.byref(p), ctypes.byref(s), None):
        raise SystemExit("compare_tensors failed")
    return s


def seconds(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def cases(n):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        a = torch.randn(n).to(dtype)
        yield str(dtype)[6:], a, a + a * 1e-3
    a = torch.randn(n // 1024, 1024)
    yield "float32 transposed", a.t(), (a * 1.0001).t()
    a = torch.randint(0, 1000, (n,))
    yield "int64", a, a.clone()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("library")
    p.add_argument("--elements", type=int, default=1 << 24)
    p.add_argument("--rounds", type=int, default=7)
    args = p.parse_args()
    lib = ctypes.CDLL(args.library)
    threads = torch.get_num_threads()
    x, y = torch.randn(1 << 25), torch.empty(1 << 25)
    copy = statistics.median(seconds(lambda: y.copy_(x)) for _ in range(args.rounds))
    print(f"copy of {x.numel() * 4 >> 20} MiB: {2 * x.numel() * 4 / copy / 1e9:.1f} GB/s read and written, "
          f"{threads} threads")
    print(f"{'':20}{'torch ops':>14}{'1 thread':>14}{f'{threads} threads':>14}{'ratio':>9}")
    for name, a, b in cases(args.elements):
        times = {"torch": [], "one": [], "all": []}
        for _ in range(args.rounds):
            times["torch"].append(seconds(lambda: with_torch(a, b)))
            times["one"].append(seconds(lambda: with_loops(lib, a, b, 1)))
            times["all"].append(seconds(lambda: with_loops(lib, a, b, threads)))
        size = 2 * a.numel() * a.element_size() / 1e9
        m = {k: statistics.median(v) for k, v in times.items()}
        print(f"{name:20}" + "".join(f"{size / m[k]:>9.2f} GB/s" for k in m) + f"{m['torch'] / m['all']:>8.1f}x")


if __name__ == "__main__":
    main()
