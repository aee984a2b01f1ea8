"""What autocast casts in a call: of its arguments, and of what it computes."""
import torch
import torch.utils._python_dispatch as operators

from ditrace_runner.autocast_state import autocast, no_autocast
from ditrace_runner.call import convert, copied, walk
from ditrace_runner.device import why_missing
from ditrace_runner.errors import Refused, Skipped
from ditrace_runner.functions import MOVES, base_name
from ditrace_runner.load import LOCATIONS
from ditrace_runner.memory import is_short
from ditrace_runner.probe import HALVES

TO_COPY = torch.ops.aten._to_copy.default
DEVICE = torch.ops.prim.device.default


def tensors_in(nest):
    return [x for _, x in walk(nest) if isinstance(x, torch.Tensor)]


def in_dtypes(results, dtypes, rebuilt=convert):
    """The same results, each tensor in the next dtype, as on the device that it was on."""
    dtypes = iter(dtypes)

    def one(x):
        if not isinstance(x, torch.Tensor):
            return x
        new = x.to(next(dtypes))
        setattr(new, LOCATIONS, getattr(x, LOCATIONS, "cpu"))
        return new

    return rebuilt(results, one)


class Casts(operators.TorchDispatchMode):
    """Sees the casts of arguments in one call, {id of an argument: dtype}, and which operators it calls besides: with
    (dtype, whether it is an argument) of each tensor they get, and the dtypes of those that they give."""

    def __init__(self, arguments):
        super().__init__()
        self.arguments, self.made, self.calls = {id(t) for t in arguments}, {}, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        dtype = (kwargs or {}).get("dtype")
        if func is DEVICE:  # which fake tensors alone ask for
            return func(*args, **(kwargs or {}))
        if func is TO_COPY and dtype is not None and dtype != args[0].dtype and id(args[0]) in self.arguments:
            self.made[id(args[0])] = dtype
            return func(*args, **kwargs)
        given = [(t.dtype, id(t) in self.arguments) for t in tensors_in((args, kwargs))]
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, given, dtype, [t.dtype for t in tensors_in(result)]))
        return result


class Found:
    """casts: dtype or None for each tensor of the call. whole: whether the gradients are those of such a call, too. narrow: the
    dtypes that tell how precise the results are, where that is less than their own."""

    def __init__(self, casts, whole, narrow=None, gave=()):
        self.casts, self.whole, self.narrow = casts, whole, narrow
        self.gave = [dtype for dtype, _ in gave]  # the dtypes of the results

    def of(self, tensors):
        """{id of a tensor of the call: the dtype that it is cast to}"""
        return {id(t): dtype for t, dtype in zip(tensors, self.casts) if dtype is not None}

    def narrowed(self, results, rebuilt=convert):
        """The results in the dtypes that tell how precise they are, as on the device that they were on."""
        return in_dtypes(results, self.narrow, rebuilt) if self.narrow else results


def seen(function, tensors, copies, args, kwargs, rebuilt):
    """The casts of a call with copies, each taken for the tensor at its place, and the dtypes of its results."""
    of, casts = {id(t): c for t, c in zip(tensors, copies)}, Casts(copies)

    def copy_of(x):
        return of[id(x)] if isinstance(x, torch.Tensor) else x

    with casts:
        result = function(*rebuilt(tuple(args), copy_of), **rebuilt(dict(kwargs), copy_of))
    return casts, [(t.dtype, tuple(t.shape)) for t in tensors_in(result)]


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


def look(function, tensors, args, kwargs, copy, rebuilt=convert):
    """What autocast casts each of the tensors to; None: not known. It is seen in a call with copies of them, and must explain
    that: without autocast, with arguments that are cast already, the same is called. copy(tensor): one on its device."""

    def called(dtypes):
        copies = [copy(t).to(d or t.dtype) for t, d in zip(tensors, dtypes)]
        casts, gave = seen(function, tensors, copies, args, kwargs, rebuilt)
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
            return Found(as_given, True, gave=gave)
        if any(made):
            _, others, gives = plainly(made)
            return Found(made, True, gave=gave) if gives == gave and shape_of(others) == shape_of(calls) else None
        # Operators that are told to compute in float32 read their argument as it is.
        made = [torch.float32 if t.dtype in HALVES else None for t in tensors]
        _, wide, widened = plainly(made)
        if widened == gave and is_widened(calls, wide):
            return Found(made, False, gave=gave)
        same = gives and [shape for _, shape in gives] == [shape for _, shape in gave]
        return Found(as_given, False, [dtype for dtype, _ in gives], gave) if same and is_precise(calls, others) else None


# --- of captured calls


def fake_copies(device):
    """(mode, copy) of tensors that have a device's dispatch without their numbers, so that it need not be here."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    mode = FakeTensorMode()

    def copy(t):
        with mode:
            return torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=device)

    return mode, copy


def look_at(capture, tensors, on):
    """The same of a captured call and its tensors, under autocast for these devices {type: name of a dtype}; Unseen: it cannot be
    looked at."""
    device = capture.location

    def argument(x, f):
        return convert(x, lambda leaf: leaf.item() if id(leaf) in capture.numbers else f(leaf))

    try:
        if device != "cpu" and why_missing(device):
            mode, copy = fake_copies(device)
            with autocast(on), mode:
                return look(capture.function, tensors, capture.args, capture.kwargs, copy, argument)
        with autocast(on):
            return look(capture.function, tensors, capture.args, capture.kwargs,
                        lambda t: copied(t.detach(), t.dtype).to(device), argument)
    except Exception as e:  # an operator in Python may raise anything
        if isinstance(e, (Refused, Skipped)) or is_short(e):
            raise
        raise Unseen from e


class Unseen(Exception):
    """What autocast casts cannot be looked at."""


def computes_once(capture):
    """Does the call compute with one operator, so that autocast casts nothing but its arguments?"""
    copies = [copied(t.detach(), torch.float32 if t.dtype in HALVES else t.dtype) for t in capture.tensors]
    try:
        with torch.no_grad(), no_autocast():
            casts, _ = seen(capture.function, capture.tensors, copies, capture.args, capture.kwargs, convert)
    except Exception as e:
        if is_short(e):
            raise
        return False
    return sum(base_name(str(func)) not in MOVES for func, *_ in casts.calls) <= 1
