"""Under autocast a call is judged by what it computes with: with the dtypes that its arguments were cast to."""
import contextlib

import torch
import torch.utils._python_dispatch as operators

from ditrace_modes.autocast_state import dtype_on, switches
from ditrace_modes.calls import Unchanged
from ditrace_modes.names import GET_STATE, LATER, SET_STATE, is_autocast
from ditrace_modes.native import tensors_in
from ditrace_modes.values import each, rebuilt
from ditrace_runner.call import copied

MOST = 4096
TO_COPY = torch.ops.aten._to_copy.default


class Casts(operators.TorchDispatchMode):
    """Sees the casts of arguments in one call, {id of an argument: dtype}, and which operators it calls besides: with
    (dtype, whether it is an argument) of each tensor they get, and the dtypes of those that they give."""

    def __init__(self, arguments):
        super().__init__()
        self.arguments, self.made, self.calls = {id(t) for t in arguments}, {}, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        dtype = (kwargs or {}).get("dtype")
        if func is TO_COPY and dtype is not None and dtype != args[0].dtype and id(args[0]) in self.arguments:
            self.made[id(args[0])] = dtype
            return func(*args, **kwargs)
        given = [(t.dtype, id(t) in self.arguments) for t in tensors_in(args, kwargs)]
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, given, dtype, [t.dtype for t in tensors_in([result])]))
        return result


class Found:
    """casts: dtype or None for each tensor of the call. whole: whether the gradients are those of such a call, too. narrow: the
    dtypes that tell how precise the results are, where that is less than their own."""

    def __init__(self, casts, whole, narrow=None):
        self.casts, self.whole, self.narrow = casts, whole, narrow


def seen(plan, tensors, copies, args, kwargs):
    """The casts of a call with copies, each taken for the tensor at its place, and the dtypes of its results."""
    of, casts = {id(t): c for t, c in zip(tensors, copies)}, Casts(copies)

    def copy_of(x):
        return of[id(x)] if isinstance(x, torch.Tensor) else x

    with casts:
        result = plan.func(*rebuilt(tuple(args), copy_of), **rebuilt(dict(kwargs), copy_of))
    return casts, [(t.dtype, tuple(t.shape)) for t in tensors_in([result])]


def shape_of(calls):
    """Which operators are called with which dtypes."""
    return [(func, [d for d, _ in given], dtype, gave) for func, given, dtype, gave in calls]


def is_widened(calls, wide):
    """Are `wide` the same operators, which give the same dtypes, and get in float32 what `calls` read from arguments in less?"""
    return len(calls) == len(wide) and all(
        getattr(a[0], "overloadpacket", a[0]) is getattr(b[0], "overloadpacket", b[0]) and a[3] == b[3] and len(a[1]) == len(b[1]) and
        all(d == e or e == torch.float32 and d in HALVES and is_argument for (d, is_argument), (e, _) in zip(a[1], b[1]))
        for a, b in zip(calls, wide))


def is_precise(calls, plain):
    """Are `calls` the same operators as `plain`, in float32 after some of them, where `plain` goes on in less?"""
    calls = [c for c in calls if c[0] is not TO_COPY or c[3] != [torch.float32] or c[1][0][1]]
    return len(calls) == len(plain) and all(a[0] is b[0] and a[2] == b[2] and len(a[1]) == len(b[1]) and len(a[3]) == len(b[3]) and all(
        d == e or d == torch.float32 and e in HALVES for d, e in zip([d for d, _ in a[1]] + a[3], [d for d, _ in b[1]] + b[3]))
        for a, b in zip(calls, plain))


HALVES = torch.float16, torch.bfloat16


def copy_on_device(t):
    return (copied(t, t.dtype) if t.device.type == "cpu" else t.clone()).detach()


def look(plan, tensors, args, kwargs):
    """What autocast casts each of the tensors to; None: not known. It is seen in a call with copies of them, and must explain
    that: without autocast, with arguments that are cast already, the same is called."""

    def called(dtypes):
        copies = [copy_on_device(t).to(d or t.dtype) for t, d in zip(tensors, dtypes)]
        casts, gave = seen(plan, tensors, copies, args, kwargs)
        return [casts.made.get(id(c)) for c in copies], casts.calls, gave

    def plainly(dtypes):
        """Without autocast it may lack a kernel for what it was given."""
        try:
            with no_autocast():
                return called(dtypes)
        except RuntimeError:
            return None, [], None

    as_given = [None] * len(tensors)
    with torch.no_grad():
        made, calls, gave = called(as_given)
        more, others, gives = plainly(as_given)
        if gives == gave and more == made and shape_of(others) == shape_of(calls):
            return Found(as_given, True)
        if any(made):
            _, others, gives = plainly(made)
            return Found(made, True) if gives == gave and shape_of(others) == shape_of(calls) else None
        # Operators that are told to compute in float32 read their argument as it is.
        made = [torch.float32 if t.dtype in HALVES else None for t in tensors]
        _, wide, widened = plainly(made)
        if widened == gave and is_widened(calls, wide):
            return Found(made, False)
        same = gives and [shape for _, shape in gives] == [shape for _, shape in gave]
        return Found(as_given, False, [dtype for dtype, _ in gives]) if same and is_precise(calls, others) else None


def states_of(tensors):
    """(function, its argument, ..) that take back what is drawn on their devices."""
    found = [(SET_STATE, GET_STATE())]
    for device in {t.device for t in tensors if t.device.type not in ("cpu", *LATER)}:
        module = getattr(torch, device.type, None)
        if not hasattr(module, "get_rng_state"):
            raise Unchanged("runs under autocast of a device whose random numbers cannot be taken back")
        found.append((module.set_rng_state, module.get_rng_state(device), device))
    return found


def kind_of(x):
    return x if isinstance(x, (bool, str, torch.dtype, type(None))) else type(x)


def casts_of(plan, tensors, args, kwargs):
    """{id of an argument: dtype that autocast casts it to}, and what was found"""
    devices = sorted({t.device.type for t in tensors})
    dtypes = tuple((d, dtype_on(d)) for d in devices)
    if not any(dtype for _, dtype in dtypes):
        return {}, Found([], True)
    if any(d in LATER for d in devices):
        raise Unchanged("runs under autocast of a device that computes later")
    kept = plan.__dict__.setdefault("autocasts", {})
    key = dtypes, tuple((t.dtype, t.dim(), t.device.type) for t in tensors), tuple(kwargs), tuple(
        kind_of(x) for x in each((args, kwargs)) if not isinstance(x, torch.Tensor))
    if key not in kept:
        if len(kept) >= MOST:
            kept.clear()
        states = states_of(tensors)
        try:
            kept[key] = look(plan, tensors, args, kwargs)
        finally:
            for f, *what in states:
                f(*what)
    found = kept[key]
    if found is None:
        raise Unchanged("casts what it has computed, under autocast")
    return {id(t): d for t, d in zip(tensors, found.casts) if d is not None}, found


@contextlib.contextmanager
def no_autocast():
    """References compute in the dtypes that they are given."""
    was = switches() if is_autocast() else []
    for switch in was:
        switch(False)
    try:
        yield
    finally:
        for switch in was:
            switch(True)


def is_cast_node(node):
    return node.name() == "ToCopyBackward0"


def is_parameter_cast(node):
    """Autocast makes one for all calls: what leaves it is the sum of their gradients."""
    return is_cast_node(node) and node.next_functions[0][0].name().endswith("AccumulateGrad")
