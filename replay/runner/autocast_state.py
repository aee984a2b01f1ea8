"""On which devices autocast is on. Each version of PyTorch asks and tells it differently."""
import contextlib
import functools

import torch

HAS_DEVICES = hasattr(torch, "get_autocast_dtype")  # functions that take a type of device
OLD = {"cpu": ("is_autocast_cpu_enabled", "set_autocast_cpu_enabled", "get_autocast_cpu_dtype", "set_autocast_cpu_dtype"),
       "cuda": ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_gpu_dtype", "set_autocast_gpu_dtype")}
# of the module of a backend outside of PyTorch
CUSTOM = ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype")


def custom():
    """The name of that backend; None: there is none."""
    name = getattr(torch._C, "_get_privateuse1_backend_name", str)()
    return name if hasattr(getattr(torch, name, None), CUSTOM[0]) else None


def types():
    if HAS_DEVICES:
        return torch._C._autocast_supported_devices() if hasattr(torch._C, "_autocast_supported_devices") else [
            *OLD, "xpu", "privateuseone"]
    return [*OLD, *filter(None, [custom()])]


def functions_of(device):
    """(is_enabled, set_enabled, get_dtype, set_dtype)"""
    if HAS_DEVICES:
        return [functools.partial(f, device) for f in (torch.is_autocast_enabled, torch.set_autocast_enabled,
                                                       torch.get_autocast_dtype, torch.set_autocast_dtype)]
    if device in OLD:
        return [getattr(torch, name) for name in OLD[device]]
    return [getattr(getattr(torch, device), name) for name in CUSTOM]


def of(device):
    return functions_of(device)[0]


def is_on(device):
    try:
        return of(device)()
    except (RuntimeError, AttributeError):  # it has no autocast
        return False


def of_any():
    """What says whether it is on for any device."""
    return getattr(torch._C, "_is_any_autocast_enabled", lambda: any(map(is_on, types())))


def dtype_on(device):
    """What it casts to on that device; None: it is off."""
    return functions_of(device)[2]() if is_on(device) else None


def dtypes():
    """{type of device: name of the dtype that it casts to} where it is on."""
    return {d: str(dtype_on(d))[len("torch."):] for d in types() if is_on(d)}


def switches():
    """What turns it on or off, for each device on which it is on."""
    return [functions_of(d)[1] for d in types() if is_on(d)]


def is_autocast():
    return ANY() or CPU()


ANY, CPU = of_any(), of("cpu")


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


@contextlib.contextmanager
def autocast(on):
    """As it was where dtypes() gave this. Of a device that is not here, too, which torch.autocast refuses."""
    of_each = [(*functions_of(device), getattr(torch, dtype)) for device, dtype in on.items()]
    was = [(is_enabled(), get_dtype()) for is_enabled, _, get_dtype, *_ in of_each]
    try:
        for _, set_enabled, _, set_dtype, dtype in of_each:
            set_dtype(dtype)
            set_enabled(True)
        yield
    finally:
        for (_, set_enabled, _, set_dtype, _), (enabled, dtype) in zip(of_each, was):
            set_enabled(enabled)
            set_dtype(dtype)
