"""Under autocast a call is judged by what it computes with: with the dtypes that its arguments were cast to."""
import torch

from ditrace_modes.calls import Unchanged
from ditrace_modes.names import GET_STATE, LATER, SET_STATE
from ditrace_modes.values import each, rebuilt
from ditrace_runner.autocast_state import dtype_on
from ditrace_runner.call import copied
from ditrace_runner.casts import Found, look

MOST = 4096


def copy_on_device(t):
    return (copied(t, t.dtype) if t.device.type == "cpu" else t.clone()).detach()


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


def found_of(plan, tensors, args, kwargs):
    """What autocast casts in a call."""
    devices = sorted({t.device.type for t in tensors})
    dtypes = tuple((d, dtype_on(d)) for d in devices)
    if not any(dtype for _, dtype in dtypes):
        return Found([], True)
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
            kept[key] = look(plan.func, tensors, args, kwargs, copy_on_device, rebuilt)
        finally:
            for f, *what in states:
                f(*what)
    if kept[key] is None:
        raise Unchanged("casts what it has computed, under autocast")
    return kept[key]


def is_cast_node(node):
    return node.name() == "ToCopyBackward0"


def is_parameter_cast(node):
    """Autocast makes one for all calls: what leaves it is the sum of their gradients."""
    return is_cast_node(node) and node.next_functions[0][0].name().endswith("AccumulateGrad")
