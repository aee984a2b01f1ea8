"""Devices that ops run on."""
import torch


def synchronize(device):
    kind = device.split(":")[0]
    if kind == "lazy":
        import torch._lazy
        torch._lazy.mark_step(wait=True)
    elif kind not in ("cpu", "meta"):
        module = getattr(torch, kind, None)
        if hasattr(module, "synchronize"):
            module.synchronize()


def start_device(device):
    kind = device.split(":")[0]
    if kind == "lazy":
        import torch._lazy
        import torch._lazy.ts_backend
        torch._lazy.ts_backend.init()
    elif kind == "npu":
        import torch_npu  # noqa: F401
    elif kind == "mlu":
        import torch_mlu  # noqa: F401


STARTED = {}


def has_device(device):
    """Can tensors be made there?"""
    kind = device.split(":")[0]
    if kind not in STARTED:
        try:
            start_device(device)
            torch.zeros(1, device=device).cpu()
            STARTED[kind] = None
        except Exception as e:  # whatever a missing device brings about
            STARTED[kind] = str(e).splitlines()[0] if str(e) else type(e).__name__
    return STARTED[kind] is None


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
