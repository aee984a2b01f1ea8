"""A call that is under way, with copies on the CPU of what it was given and gave: as a captured one."""
import time

import torch

from ditrace_modes.calls import check_readable
from ditrace_modes.level import LEVEL
from ditrace_modes.values import rebuilt
from ditrace_runner.call import copied
from ditrace_runner.capture import Capture
from ditrace_runner.load import LOCATIONS


def cpu_copy(t):
    """A tensor as a captured one is loaded."""
    check_readable(t)
    with torch.no_grad():  # detach() of the lazy device before 2.0 forgets the shape of views
        new = copied(t, t.dtype) if t.device.type == "cpu" else t.to("cpu", copy=True)
    setattr(new, LOCATIONS, str(t.device))
    return new


class Live(Capture):
    """A call that is under way, in place of a captured one."""

    def __init__(self, plan, args, kwargs, autocasts=None, tensors=()):
        self.autocasts = autocasts  # what autocast casts (Found)
        self.casts = autocasts.of(tensors) if autocasts else {}  # id of an argument: the dtype
        self.dir, self.trust, self.functions = "", False, None
        self.copied = {}
        self.take(plan.name, rebuilt(tuple(args), self.input), rebuilt(dict(kwargs), self.input), None)
        self.function, self.base, self.grad_mode = plan.func, plan.base, torch.is_grad_enabled()
        self.parts = {}
        self.grads = {}  # id of an input's copy: its gradient
        self.began = int(time.time())

    def input(self, x):
        if not isinstance(x, torch.Tensor):
            return x
        if id(x) not in self.copied:
            copy = cpu_copy(x)
            if id(x) in self.casts:
                copy = copy.to(self.casts[id(x)])
                setattr(copy, LOCATIONS, str(x.device))
            self.copied[id(x)] = copy.requires_grad_(x.requires_grad and not LEVEL.is_aten)
        return self.copied[id(x)]

    def resolve(self):
        pass

    def was_in_grad(self, results):
        return self.grad_mode and any(t.requires_grad for t in self.tensors)

    def autocast(self):
        return None

    def find_numbers(self, output):
        pass  # at this level they are Python's own

    def file(self, part):
        return self.parts.get(part)

    def grads_of(self, names, grads):
        return [(path, self.grads.get(id(t))) for path, t in self.leaves()]


def edge_of(t):
    if t.grad_fn is not None:
        return t.grad_fn, t.output_nr
    with torch.enable_grad():
        return t.view_as(t).grad_fn.next_functions[0][0], 0


def edges_of(live, tensors):
    """{edge where a gradient leaves: id of the copy of the input it is of}"""
    if not torch.is_grad_enabled() or LEVEL.is_aten:  # the operators of a backward come by themselves
        return {}
    return {edge_of(t): id(live.copied[id(t)]) for t in tensors if t.requires_grad}


def copied_results(live, result, args, kwargs):
    given = live.written(args, kwargs) if result is None and live.changes_inputs else result
    return rebuilt(given, lambda x: cpu_copy(x) if isinstance(x, torch.Tensor) else x)


def keep_results(live, result, args, kwargs):
    kept = copied_results(live, result, args, kwargs)
    live.parts["output"] = {"args": [live.autocasts.narrowed(kept, rebuilt) if live.autocasts else kept]}
