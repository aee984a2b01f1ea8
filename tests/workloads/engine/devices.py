"""Ops that launch work on a device, which stand_in.c stands in for. argv: its folder; whether CUDA is initialised before or after
the recording begins; what happens: profiler (PyTorch's own begins), fork, waits (for a line of input, at the end)."""
import ctypes
import os
import sys
import threading
import time

folder, when, *what = sys.argv[1:]
driver = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"), ctypes.RTLD_GLOBAL)
cupti = ctypes.CDLL(os.path.join(folder, "libcupti.so.13"), ctypes.RTLD_GLOBAL)
U64, U32, P = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_char_p
cupti.stand_in_launch.argtypes = cupti.stand_in_launch_driver.argtypes = P, U64, U64, U32
cupti.stand_in_graph.argtypes = P, U32, U64, U32
cupti.stand_in_copy.argtypes = U64, U64, U32
cupti.stand_in_wrong.argtypes = (P,)
NAME = {n: P(n) for n in (b"_ZN2at6native4workIfEEvPT_", b"outer_kernel", b"lone_kernel", b"graph_kernel", b"other_kernel", b"blas_kernel")}


def launch(name, ns, stream=7):
    cupti.stand_in_launch(NAME[name], 5000, ns, stream)


def use():
    cupti.stand_in_initialise()
    driver.stand_in_use()


if when in ("before", "never"):
    use()
import torch  # noqa: E402

lib = torch.library.Library("device", "DEF")
lib.define("work(Tensor x) -> Tensor")
lib.define("outer(Tensor x) -> Tensor")


def work(x):
    launch(b"_ZN2at6native4workIfEEvPT_", 20000)
    return x + 1


def outer(x):
    launch(b"outer_kernel", 30000)
    y = torch.ops.device.work(x)
    cupti.stand_in_launch_driver(NAME[b"blas_kernel"], 5000, 60000, 7)
    launch(b"outer_kernel", 30000)
    return y


lib.impl("work", work, "CPU")
lib.impl("outer", outer, "CPU")


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.ops.device.work(x)

    @staticmethod
    def backward(ctx, g):
        return torch.ops.device.work(g)


def await_recording():
    """Ops of no interest until ditrace records what devices do."""
    end = time.time() + (1.5 if when == "never" else float(os.environ.get("PATIENCE", 180)))
    while not cupti.stand_in_is_on() and time.time() < end:
        torch.zeros(1) * 1
        time.sleep(0.01)


x = torch.ones(4, requires_grad=True)
print("waiting", flush=True)
if when == "after":
    await_recording()
    use()
await_recording()
print("recording", cupti.stand_in_kinds() > 0, flush=True)
if "twice" in what:
    launch(b"lone_kernel", 1000)
    sys.stdin.readline()
    await_recording()
if "profiler" in what:
    launch(b"lone_kernel", 1000)
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as p:
        y = torch.ones(3) * 2
    print("kinds", cupti.stand_in_kinds(), "profiled", any(e.key == "aten::mul" for e in p.key_averages()), flush=True)
    sys.exit()
for i in range(10):
    torch.ops.device.outer(x.detach())
    Twice.apply(x).sum().backward()
launch(b"lone_kernel", 40000, 9)
cupti.stand_in_wrong(NAME[b"lone_kernel"])
cupti.stand_in_graph(NAME[b"graph_kernel"], 3, 10000, 7)
cupti.stand_in_copy(4096, 7000, 8)
t = threading.Thread(target=lambda: (torch.ones(2) + 1, torch.ops.device.work(torch.ones(2)), launch(b"other_kernel", 50000)))
t.start()
t.join()
if "fork" in what:
    pid = os.fork()
    if not pid:
        torch.ones(2) + 1
        launch(b"lone_kernel", 1)
        os._exit(0)
    print("child", os.waitpid(pid, 0)[1], flush=True)
if "waits" in what:
    print("waits", flush=True)
    sys.stdin.readline()
    print("kinds", cupti.stand_in_kinds(), flush=True)
print("done, blind", cupti.stand_in_blind(), flush=True)
