"""Devices that ops run on."""
import functools
import importlib
import inspect

import torch

MODULES = {"lazy": ("torch._lazy", "torch._lazy.ts_backend"), "npu": ("torch_npu",), "mlu": ("torch_mlu",)}  # that it needs


def call_of(device, name):
    """What the module of this kind of device (torch.cuda) does under that name, for this one, which may be another than the
    current one: a function without arguments; None: nothing."""
    kind, _, index = device.partition(":")
    f = getattr(getattr(torch, kind, None), name, None) if kind not in ("cpu", "meta") else None
    if f is None:
        return None
    return functools.partial(f, *[device] if index and inspect.signature(f).parameters else [])


def synchronize(device):
    wait = call_of(device, "synchronize")
    if device.split(":")[0] == "lazy":
        importlib.import_module("torch._lazy").mark_step(wait=True)
    elif wait is not None:
        wait()


def start_device(device):
    kind = device.split(":")[0]
    modules = [importlib.import_module(name) for name in MODULES.get(kind, ())]
    if kind == "lazy":
        modules[-1].init()


MISSING = {}  # device: why there is none, None: there is


def why_missing(device):
    """Why tensors cannot be made there; None: they can."""
    if device not in MISSING:
        try:
            start_device(device)
            torch.zeros(1, device=device).cpu()
            MISSING[device] = None
        except Exception as e:  # whatever a missing device brings about
            MISSING[device] = str(e).splitlines()[0] if str(e) else type(e).__name__
    return MISSING[device]


def settled(device):
    """After a failure: can the device be used again? One that works on its own tells of a failure later, when it is
    waited for, and some stay broken."""
    for _ in range(2):
        try:
            synchronize(device)
            torch.zeros(1, device=device).cpu()
            return True
        except Exception:  # what the failed op left
            pass
    return False
