"""A training that allocates and frees. With an argument, it is profiled by PyTorch itself, whose memory of each op is printed as
JSON: of all that the ops have allocated less what they have freed, by their names, themselves and with all that they called; and
what was so of no op."""

import ctypes
import json
import sys
import threading

import torch


def tell_of_devices():
    """What allocators of devices do: c10 is told (cuda:0, cuda:1, and what PyTorch's users call NPU or other)."""
    parameters = "lmm" if torch.__version__ >= "2" else "lll"
    with open("/proc/self/maps") as maps:
        c10 = ctypes.CDLL(next(line.split()[-1] for line in maps if "libc10.so" in line))
    tell = getattr(c10, f"_ZN3c1027reportMemoryUsageToProfilerEPv{parameters}NS_6DeviceE")
    tell.argtypes = [ctypes.c_void_p] + 3 * [ctypes.c_int64] + [ctypes.c_uint32]
    tell.restype = None
    cuda, private = 1, 20
    tell(0x1000, 4 << 20, 4 << 20, 20 << 20, cuda)
    tell(0x2000, 1 << 20, 5 << 20, 20 << 20, cuda)
    tell(0x1000, -4 << 20, 1 << 20, 22 << 20, cuda)
    tell(0x1000, 3 << 20, 3 << 20, 8 << 20, cuda | 1 << 8)
    tell(0x1000, 512, 512, 2 << 20, private)


def work():
    torch.manual_seed(1)
    layer = torch.nn.Linear(64, 128)
    held = torch.zeros(1 << 20, dtype=torch.float64)  # 8 MiB
    for _ in range(3):
        loss = torch.relu(layer(torch.randn(32, 64))).square().mean()
        loss.backward()
        layer.zero_grad()
    # Freed by another thread.
    kept = [held.add(1)]
    t = threading.Thread(target=kept.clear)
    t.start()
    t.join()
    return loss.item()


def profiler():
    if torch.__version__ < "2":  # the other one goes by times in microseconds
        from torch.autograd import profiler_legacy

        return profiler_legacy.profile(profile_memory=True)
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)


if len(sys.argv) > 1:
    with profiler() as p:
        work()
    print(json.dumps({e.key: (e.self_cpu_memory_usage, e.cpu_memory_usage) for e in p.key_averages()}))
else:
    print("%.12g" % work())
    tell_of_devices()
