"""What --fallback, --cast and --compare take for an op, beside a minimal TorchFunctionMode in Python that does the same
with torch ops, and the same computation written out by hand: all in one process that ditrace has started, in short
turns. What a tool adds is what it takes more than the computation by hand, which is the device's call itself and the
copies, the call on the CPU and the result brought back (fallback), the same in float32 (cast), or the call again on
float64 copies (compare). All times are of the CPU, the least of all turns."""

import argparse
import functools
import os
import re
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
import torch.overrides
from overhead import goal
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

TURN_S, CALLS = 0.01, 10
DTYPES = {torch.bfloat16: torch.float32}


def moved(how):
    return lambda x: how(x) if isinstance(x, torch.Tensor) else x


class Fallback(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        device = next(a.device for a in args if isinstance(a, torch.Tensor))
        args, kwargs = tree_map(moved(lambda t: t.to("cpu")), (args, kwargs or {}))
        return tree_map(moved(lambda t: t.to(device)), func(*args, **kwargs))


class Cast(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        args, kwargs = tree_map(moved(lambda t: t.to(DTYPES.get(t.dtype, t.dtype))), (args, kwargs or {}))
        return tree_map(moved(lambda t: t.to(torch.bfloat16)), func(*args, **kwargs))


class Compare(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        args64, kwargs64 = tree_map(moved(lambda t: t.to("cpu", torch.float64, copy=True)), (args, kwargs))
        result, reference = func(*args, **kwargs), func(*args64, **kwargs64)
        if not torch.allclose(result.to("cpu", torch.float64), reference, 1e-3, 1e-3):
            print(f"{torch.overrides.resolve_name(func)} is wrong")
        return result


def by_hand(feature, f, args):
    """The computation that the tool asks for, and nothing else."""
    if feature == "fallback":
        device = args[0].device
        return lambda: f(*[a.to("cpu") for a in args]).to(device)
    if feature == "cast":
        return lambda: f(*[a.to(torch.float32) for a in args]).to(torch.bfloat16)
    return lambda: (f(*args), f(*[a.to("cpu", torch.float64, copy=True) for a in args]))


def cases(device, dtype):
    def t(*shape):
        return torch.randn(*shape).to(dtype).to(device)

    x, w, b = t(32, 64), t(64, 64), t(64)
    return {"torch.add": (torch.add, (x, x)), "torch.matmul": (torch.matmul, (x, w)),
            "torch.nn.functional.linear": (F.linear, (x, w, b)), "torch.nn.functional.gelu": (F.gelu, (x,))}


def turn(f):
    """Microseconds of the process's CPU time for a call: what else the machine does counts for less."""
    begin, n = time.process_time(), 0
    while True:
        for _ in range(CALLS):
            f()
        n += CALLS
        now = time.process_time()
        if now - begin > TURN_S:
            return (now - begin) / n * 1e6


def under(mode, f):
    def run():
        with mode:
            return turn(f)

    return run


def beneath(mode, f):
    """With ditrace's mode, which is taken off for all other turns."""
    def run():
        torch.overrides._push_mode(mode)
        try:
            return turn(f)
        finally:
            torch.overrides._pop_mode()

    return run


def take_turns(kinds, rounds):
    """{kind: microseconds of a call, a turn each}; the first round warms up."""
    times = {k: [] for k in kinds}
    for i in range(rounds + 1):
        for k in list(kinds)[i % len(kinds):] + list(kinds)[:i % len(kinds)]:
            us = kinds[k]()
            if i:
                times[k].append(us)
    return times


def work(feature, rounds):
    torch.set_num_threads(1)
    ditrace = torch.overrides._pop_mode()
    peer = {"fallback": Fallback, "cast": Cast, "compare": Compare, "idle": None}[feature]
    device = "lazy" if feature == "fallback" else "cpu"
    if device == "lazy":
        from torch._lazy import ts_backend
        ts_backend.init()
    for name, (f, args) in cases(device, torch.bfloat16 if feature == "cast" else torch.float32).items():
        call = functools.partial(f, *args)
        kinds = {"bare": lambda: turn(call), "ditrace": beneath(ditrace, call)}
        if peer:
            kinds["hand"] = lambda: turn(by_hand(feature, f, args))
            kinds["python"] = under(peer(), call)
        show(feature, name, take_turns(kinds, rounds))
    sys.stdout.flush()
    os._exit(0)


def show(feature, name, times):
    t = {kind: min(us) for kind, us in times.items()}
    row = f"  {feature:9}{name:28}{t['bare']:7.1f} us"
    if feature == "idle":
        print(f"{row}{'':26}{t['ditrace'] - t['bare']:+10.2f} us")
        return
    python, ditrace = t["python"] - t["hand"], t["ditrace"] - t["hand"]
    print(f"{row}{t['hand']:10.1f} us{python:+10.1f} us{ditrace:+10.1f} us{python / max(ditrace, 0.01):9.1f}x")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=12)
    p.add_argument("--work", choices=("fallback", "cast", "compare", "idle"))
    a = p.parse_args()
    if a.work:
        work(a.work, a.rounds)
    ops = "torch.add,torch.matmul,torch.nn.functional.linear,torch.nn.functional.gelu"
    options = {"fallback": ["--fallback", ops], "cast": ["--cast", "bfloat16->float32", "--ops", ops],
               "compare": ["--compare", ops], "idle": ["--fallback", "relu6"]}
    print(f"  {'functions changed, a call':37}{'bare':>10}{'by hand':>13}{'Python adds':>13}{'ditrace':>13}{'ratio':>10}", flush=True)
    ratios = {}
    for feature, option in options.items():
        command = [os.environ["DITRACE"], "run", *option, sys.executable, __file__, "--work", feature, "--rounds", str(a.rounds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        print(done.stdout, end="", flush=True)
        ratios[feature] = [float(r) for r in re.findall(r" ([-0-9.]+)x$", done.stdout, re.MULTILINE)]
    print("  idle: a function of which nothing is wanted, while others are to be changed")
    for feature, of in ratios.items():
        if of:
            goal(min(of) >= 10, f"{feature} adds {min(of):.1f} to {max(of):.1f} times less than Python's mode, of 10")


if __name__ == "__main__":
    main()
