"""trainer.py FILE [training|loop|resnet|threads [WIDTH]]: trains the model of tests/workloads/train.py on one thread until
it is told to end, or adds small tensors LOOP times an iteration, or trains a small residual network (few ops, which take
long), or adds small tensors in two threads; and notes of each iteration when it began and ended (CLOCK_MONOTONIC ns) and
the CPU time it took (ns). Its first line is its pid and the model's width.
Told by a line on standard input, answered by one:

    profile   enter torch.profiler, with shapes and stacks
    bare      enter it without
    observe   enter an observer that does nothing with the inputs and outputs it asks for
    unobserve leave it
    rest      do nothing until the next line, which is answered, too
    leave     leave it
    show      the same, and make its table; answers with the seconds this took
    end       write the notes to the file named on the command line
"""

import array
import ctypes
import os
import select
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workloads"))
import torch
import train
from torch.profiler import ProfilerActivity, profile

# The greatest width is taken at which an iteration is this short, so that there are many in a turn.
WIDTHS, ENOUGH_MS = (128, 64), 40
LOOP = 200


class Profiler:
    def profile(self, **what):
        self.running = profile(activities=[ProfilerActivity.CPU], **(what or {"record_shapes": True, "with_stack": True}))
        self.running.__enter__()
        return "profiling"

    def bare(self):
        return self.profile(record_shapes=False)

    def observe(self):
        return observer("observe")

    def unobserve(self):
        return observer("unobserve")

    def rest(self):
        print("resting", flush=True)
        sys.stdin.readline()
        return "going"

    def leave(self):
        self.running.__exit__(None, None, None)
        self.running = None
        return "left"

    def show(self):
        begin, left = time.monotonic(), self.running
        self.leave()
        left.key_averages().table(sort_by="self_cpu_time_total", row_limit=50)
        return time.monotonic() - begin


def observer(function):
    with open("/proc/self/maps") as maps:
        torch_cpu = next(line.split()[-1] for line in maps if "/libtorch_cpu.so" in line)
    handle = ctypes.c_void_p(ctypes.CDLL(torch_cpu)._handle)
    if getattr(ctypes.CDLL(os.environ["OBSERVER"]), function)(handle):  # tests/bench/observer.c
        raise OSError("libtorch_cpu has no such function")
    return function


def told():
    return sys.stdin.readline().strip() if select.select([sys.stdin], [], [], 0)[0] else None


def training(width):
    """A step to be called, and the ms it takes untraced."""
    train.set_width(width)
    train.BATCH = 4
    model = train.LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    taken = []
    for _ in range(20):
        begin = time.monotonic()
        train.train_step(model, optimizer)
        taken.append((time.monotonic() - begin) * 1e3)
    return lambda: train.train_step(model, optimizer), sorted(taken)[len(taken) // 2]


def loop():
    a, b = torch.ones(4), torch.ones(4)
    for _ in range(LOOP):
        torch.add(a, b)


class Residual(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        conv = [torch.nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2)]
        self.body = torch.nn.Sequential(conv[0], torch.nn.BatchNorm2d(width), torch.nn.ReLU(), conv[1], torch.nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu(x + self.body(x))


def resnet():
    blocks = [Residual(32) for _ in range(4)]
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), *blocks, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.rand(4, 3, 32, 32), torch.zeros(4, dtype=torch.long)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def threads():
    """Two that take turns by the lock of the interpreter; they stay, as those of a training do."""
    both = threading.Barrier(3)

    def work():
        while True:
            both.wait()
            loop()
            both.wait()

    for _ in range(2):
        threading.Thread(target=work, daemon=True).start()

    def step():
        both.wait()
        both.wait()

    return step


def step_of(work):
    return {"loop": lambda: loop, "resnet": resnet, "threads": threads}[work]()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    times, profiler = array.array("q"), Profiler()
    work = sys.argv[2] if len(sys.argv) > 2 else "training"
    for width in [int(w) for w in sys.argv[3:]] or WIDTHS if work == "training" else ():
        step, taken = training(width)
        if taken < ENOUGH_MS:
            break
    else:
        step, width = (step, width) if work == "training" else (step_of(work), 0)
    print(os.getpid(), width, flush=True)
    while True:
        command = told()
        if command == "end":
            break
        if command:
            print(getattr(profiler, command)(), flush=True)
        begin, cpu = time.monotonic_ns(), time.process_time_ns()
        step()
        times.extend((begin, time.monotonic_ns(), time.process_time_ns() - cpu))
    with open(sys.argv[1], "wb") as f:
        times.tofile(f)


main()
