"""Under autocast a call is judged by what it computes with: with the dtypes that its arguments were cast to."""
import contextlib

import torch
import torch.utils._python_dispatch as operators

from ditrace_modes.calls import Unchanged
from ditrace_modes.names import GET_STATE, SET_STATE
from ditrace_modes.values import rebuilt
from ditrace_runner.call import copied

HAS_DEVICES = hasattr(torch, "get_autocast_dtype")
MOST = 4096


class Casts(operators.TorchDispatchMode):
    """Sees the casts of one call: {id of an argument: dtype}, and whether there were others."""

    def __init__(self):
        super().__init__()
        self.made, self.others = {}, False
        self.arguments = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        dtype = (kwargs or {}).get("dtype")
        if func is torch.ops.aten._to_copy.default and dtype is not None and dtype != args[0].dtype:
            if id(args[0]) in self.arguments:
                self.made[id(args[0])] = dtype
            else:
                self.others = True
        return func(*args, **(kwargs or {}))


def look(plan, tensors, args, kwargs):
    """What autocast casts each of the tensors to, None: nothing; in a call with copies of them."""
    copies = {id(t): copied(t, t.dtype).detach() for t in tensors}
    casts, state = Casts(), GET_STATE()
    casts.arguments = {id(c) for c in copies.values()}

    def copy_of(x):
        return copies[id(x)] if isinstance(x, torch.Tensor) else x

    try:
        with torch.no_grad(), casts:
            plan.func(*rebuilt(tuple(args), copy_of), **rebuilt(dict(kwargs), copy_of))
    finally:
        SET_STATE(state)
    return None if casts.others else [casts.made.get(id(copies[id(t)])) for t in tensors]


def casts_of(plan, tensors, args, kwargs):
    """{id of an argument: dtype that autocast casts it to}"""
    if any(t.device.type != "cpu" for t in tensors):
        raise Unchanged("runs under autocast of a device")
    kept = plan.__dict__.setdefault("autocasts", {})
    dtype = torch.get_autocast_dtype("cpu") if HAS_DEVICES else torch.get_autocast_cpu_dtype()
    key = dtype, tuple((t.dtype, t.dim()) for t in tensors)
    if key not in kept:
        if len(kept) >= MOST:
            kept.clear()
        kept[key] = look(plan, tensors, args, kwargs)
    if kept[key] is None:
        raise Unchanged("casts what it has computed, under autocast")
    return {id(t): d for t, d in zip(tensors, kept[key]) if d is not None}


@contextlib.contextmanager
def no_autocast():
    """References compute in the dtypes that they are given."""
    was = torch.is_autocast_enabled(), torch.is_autocast_enabled("cpu") if HAS_DEVICES else torch.is_autocast_cpu_enabled()
    switch_cpu = (lambda on: torch.set_autocast_enabled("cpu", on)) if HAS_DEVICES else torch.set_autocast_cpu_enabled
    if not any(was):
        yield
        return
    torch.set_autocast_enabled(False)
    switch_cpu(False)
    try:
        yield
    finally:
        torch.set_autocast_enabled(was[0])
        switch_cpu(was[1])


def is_cast_node(node):
    return node.name() == "ToCopyBackward0"
