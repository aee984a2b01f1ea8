#!/usr/bin/env python3
"""Every marked op carries the number of its own source line as an argument.

    lines.py [--check]

--check lets Python itself say where each op is called, to prove the marks right without a tracer.
"""

import functools
import linecache
import os
import sys
import threading

import torch
import torch.nn as nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

LINE = 0x10000  # a mark is LINE + line number, so that no other value is taken for one


def here():
    return LINE + sys._getframe(1).f_lineno


def plain():
    x = torch.full((2,), here())
    x.fill_(here())
    torch.add(x, x, alpha=here())
    return x.clamp(max=here())


def two_on_one_line():
    torch.full((1,), here()), torch.full((2,), here())
    for _ in range(3): torch.full((3,), here())  # fmt: skip


def several_lines():
    line = here() + 1
    x = torch.full(
        (2,),
        line,
    )
    line = here() + 1
    torch.add(x,
              x,
              alpha=line)  # fmt: skip
    line = here() + 2
    y = x if x is None else \
        torch.full((2,), line)  # fmt: skip
    first, second = here() + 3, here() + 4
    (
        x
        .clamp(max=first)
        .clamp(max=second)
    )  # fmt: skip
    return y


def nested(depth):
    if depth == 0:
        return torch.full((2,), here())
    return nested(depth - 1)


def after_nested():
    nested(3)
    torch.full((2,), here())
    return nested(1), torch.full((2,), here())


def lambdas():
    make = lambda n: torch.full((n,), here())
    make(1), make(2)
    (lambda: torch.full((2,), here()))()
    list(map(lambda n: torch.full((n,), here()), (1, 2)))
    sorted([2, 1], key=lambda n: torch.full((n,), here()).numel())


def comprehensions():
    [torch.full((n,), here()) for n in range(3)]
    {n: torch.full((n,), here()) for n in range(3)}
    {torch.full((n,), here()) for n in range(3)}
    tuple(torch.full((n,), here()) for n in range(3))
    [torch.full((a + b,), here())
     for a in range(2)
     for b in range(2)
     if torch.full((1,), here()) is not None]  # fmt: skip


def generator():
    for n in range(3):
        torch.full((n,), here())
        yield torch.full((2,), here())


def generators():
    for _ in generator():
        torch.full((2,), here())
    outer = iter(delegating())
    next(outer), next(outer)


def delegating():
    yield from generator()


def classes():
    class Body:
        made = torch.full((2,), here())

        @property
        def value(self):
            return torch.full((2,), here())

        def __add__(self, other):
            return torch.full((2,), here())

        @staticmethod
        def still():
            return torch.full((2,), here())

        @classmethod
        def cls(cls):
            return torch.full((2,), here())

    Body().value, Body() + 1, Body.still(), Body.cls(), Body().made


def decorate(function):
    @functools.wraps(function)
    def wrapper(*args):
        torch.full((2,), here())
        return function(*args)

    return wrapper


@decorate
@decorate
def decorated():
    return torch.full((2,), here())


def exceptions():
    try:
        torch.full((2,), here())
        raise KeyError
    except KeyError:
        torch.full((2,), here())
    finally:
        torch.full((2,), here())
    with torch.no_grad():
        torch.full((2,), here())


def control():
    n = 0
    while n < 2:
        n += 1
        if n == 1:
            torch.full((2,), here())
        elif torch.full((2,), here()) is not None:
            torch.full((2,), here())
        x = torch.full((1,), here()) if n else None
    assert torch.full((2,), here()) is not None
    return x[torch.full((1,), here()).lt(0)]


class Layer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        torch.full((2,), here())
        x = self.inner(x) if self.inner else x
        return torch.add(x, x, alpha=here())


def modules():
    """Deeper than 20 frames: __call__ and forward for each of twelve layers."""
    layer = None
    for _ in range(12):
        layer = Layer(layer)
    layer(torch.full((2,), here()))
    nn.Sequential(Layer(None), nn.ReLU(), Layer(None))(torch.ones(2))


def executed():
    """Code without a file: the mark is the line in that text, which linecache has, as of a cell of a notebook."""
    text = "import torch\n\ndef made():\n    return torch.full((2,), LINE + 4)\n\nmade()\ntorch.full((2,), LINE + 7)\n"
    linecache.cache["<made>"] = len(text), None, text.splitlines(True), "<made>"
    exec(compile(text, "<made>", "exec"), {"LINE": LINE})
    eval("torch.full((2,), LINE + 1)")


def threads():
    def work(n):
        for _ in range(20):
            torch.full((n,), here())
            nested(2)

    workers = [threading.Thread(target=work, args=(n,)) for n in (1, 2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()


def gap():
    # The line table has a jump of more than 127 lines below (a long string), and of more than 127 bytes of code.
    text = """













































































































































"""
    a = text.count("\n") + text.count("x") + text.count("y") + text.count("z") + text.count("a") + text.count("b")
    b = [a + a * a - a + a * a - a + a * a - a + a * a - a + a * a - a + a * a - a + a * a - a + a * a for _ in (1, 2)]
    return torch.full((2,), here()), b


def backward():
    """A chain of ops whose nodes run in reverse order, each pointing to its op's line."""
    x = torch.ones(2, requires_grad=True)
    y = torch.clamp(x, max=here())
    y = torch.clamp(y, max=here())
    for _ in range(2):
        y = torch.clamp(y, max=here())
    y = nn.functional.threshold(y, 0.5, here())
    y = inner_op(y)
    z = torch.add(y, x, alpha=here())
    z.sum().backward()


def inner_op(y):
    return torch.clamp(y, max=here())


# What runs in the backward. A comment "#:" says in which phases the marks of its line are seen, and in the backward of a line
# of which function its own Python code runs there.


def recomputed(x):
    x = torch.clamp(x, max=here())  #: forward recompute backward of reentrant
    return nn.functional.threshold(x, 0.5, here())  #: forward recompute of reentrant


def recomputed_by_hooks(x):
    y = torch.clamp(x, max=here())  #: forward recompute backward of recomputed_by_hooks
    return nn.functional.threshold(y, 0.5, here())  #: forward recompute of recomputed_by_hooks


def reentrant(x):
    return checkpoint(recomputed, x, use_reentrant=True)


def by_hooks(x):
    return checkpoint(recomputed_by_hooks, x, use_reentrant=False)


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.clamp(x, max=here())  #: forward

    @staticmethod
    def backward(ctx, grad):
        grad = torch.add(grad, grad, alpha=here())  #: backward of own
        return own_helper(grad) + torch.clamp(grad, max=here())  #: backward of own


def own_helper(grad):
    return torch.clamp(grad, max=here())  #: backward of own


def own(x):
    return Own.apply(x)


def tensor_hook(grad):
    return torch.clamp(grad, max=here())  #: backward


def module_hook(module, grads_in, grads_out):
    torch.clamp(grads_out[0], max=here())  #: backward


class Hooked(nn.Module):
    def forward(self, x):
        return torch.clamp(x, max=here())  #: forward backward


def twice(x):
    y = torch.clamp(x, max=here())  #: forward backward
    y.sum().backward(retain_graph=True)
    y.sum().backward()


def double(x):
    y = torch.clamp(x * x, max=here())  #: forward backward
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.clamp(grad, max=here()).sum().backward()  #: forward backward


def sum_again(bias):
    return torch.add(torch.ones(here(), 3), bias).sum()  #: forward recompute backward of reductions


def reductions():
    """The engine sums and converts gradients of what was broadcast and promoted. Here the mark is the first size."""
    bias, weight = torch.ones(3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    thin, wide = (torch.ones(2, dtype=t, requires_grad=True) for t in (torch.float32, torch.float64))
    a = torch.add(torch.ones(here(), 3), bias).sum()  #: forward backward
    b = nn.functional.linear(torch.ones(here(), 2), weight, bias).sum()  #: forward backward
    c = nn.functional.linear(torch.ones(here(), 2), weight, bias).sum()  #: forward backward
    d = torch.mul(torch.mul(torch.ones(here(), 2), thin), wide).sum()  #: forward backward
    e = checkpoint(sum_again, bias, use_reentrant=True)
    (b + a).backward(retain_graph=True)
    (c + d + e + b).backward()


def in_backward():
    torch.full((7777,), 0)
    for run in reentrant, by_hooks, own, Hooked():
        x = torch.ones(2, requires_grad=True)
        if isinstance(run, nn.Module):
            run.register_full_backward_hook(module_hook)
        y = run(x * 2)
        y.register_hook(tensor_hook)
        y.sum().backward()
    twice(torch.ones(2, requires_grad=True))
    double(torch.ones(2, requires_grad=True))
    reductions()


def slices():
    """The node of a write into a view is that of the tensor which it is a view of."""
    y = torch.zeros(4)
    y[:2] = torch.ones(2, requires_grad=True)
    y[2:] += 1
    y.sum().backward()


SECTIONS = (
    plain, two_on_one_line, several_lines, after_nested, lambdas, comprehensions, generators, classes, decorated,
    exceptions, control, modules, executed, threads, gap, backward, in_backward, slices,
)  # fmt: skip


class Check(TorchFunctionMode):
    """Compares the marks among an op's arguments with the frame that calls it."""

    marks = wrong = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        frame = sys._getframe(1)
        package = os.path.dirname(torch.__file__) + os.sep
        while frame.f_code.co_filename.startswith(package):
            frame = frame.f_back
        for value in list(args) + list((kwargs or {}).values()):
            if isinstance(value, int) and LINE < value < 2 * LINE:
                Check.marks += 1
                if value - LINE != frame.f_lineno:
                    Check.wrong += 1
                    print(f"{function.__name__}: mark {value - LINE}, Python says {frame.f_lineno}")
        return function(*args, **(kwargs or {}))


def main():
    torch.set_num_threads(1)
    if "--check" not in sys.argv:
        for section in SECTIONS:
            section()
        return print("done") or 0
    for section in SECTIONS:
        with Check():
            section()
    print(f"{Check.marks} marks, {Check.wrong} wrong")
    return Check.wrong > 0 or Check.marks < 100


if __name__ == "__main__":
    sys.exit(main())
