#!/usr/bin/env python3
"""Threads that stay where they are: the arguments say where, the next place after each SIGUSR1. Says "ready PID PLACE"
before the last of them gets there; a line that a thread is to be seen at ends in a mark."""

import itertools
import os
import signal
import sys
import threading
import time


class Next(Exception):
    pass


def ready():
    print("ready", os.getpid(), place, flush=True)


def go_on(*_):
    raise Next


def start(count, body, *args):
    for i in range(count):
        threading.Thread(target=body, args=(i, *args), daemon=True).start()


def deadlock():
    locks = threading.Lock(), threading.Lock()
    both = threading.Barrier(3)

    def worker(number):
        with locks[number]:
            both.wait()
            locks[1 - number].acquire()  # mark: locked

    start(2, worker)
    both.wait()
    ready()
    time.sleep(36000)  # mark: asleep


def matmul():
    import torch

    torch.set_num_threads(1)
    x = torch.ones(1200, 1200)
    ready()
    while True:
        x @ x  # mark: matmul


def backward():
    import torch

    torch.set_num_threads(1)
    x = torch.ones(900, 900, requires_grad=True)
    ready()
    while True:
        torch.mm(x, x).sum().backward()  # mark: backward


class Slow:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        parent = os.getppid()  # it may be killed
        while os.getppid() == parent:
            time.sleep(0.1)


def loader():
    import torch

    batches = iter(torch.utils.data.DataLoader(Slow(), num_workers=1))
    ready()
    next(batches)  # mark: batch


def many():
    event = threading.Event()
    start(200, lambda number: event.wait())  # mark: many
    ready()
    event.wait()


def gil():
    def sleeper(number):
        while True:
            time.sleep(0.001)

    start(1, sleeper)
    sys.setswitchinterval(3600)  # the other one asks for the GIL and never gets it
    ready()
    while True:
        sum(range(100000))  # mark: holder


def pipe():
    reader, _ = os.pipe()
    ready()
    os.read(reader, 1)  # mark: read


def mutex():
    import ctypes

    lock = ctypes.CDLL(None).pthread_mutex_lock
    both = ctypes.create_string_buffer(64)  # PTHREAD_MUTEX_INITIALIZER is zeros
    lock(both)
    start(1, lambda number: lock(both))  # mark: mutex
    ready()
    time.sleep(36000)


def collective():
    """The other process of two never comes."""
    import torch

    file, parent = os.environ["MEET"], os.getpid()
    if not os.fork():
        torch.distributed.init_process_group("gloo", init_method="file://" + file, rank=1, world_size=2)
        while os.getppid() == parent:
            time.sleep(0.1)
        os._exit(0)
    torch.distributed.init_process_group("gloo", init_method="file://" + file, rank=0, world_size=2)
    x = torch.ones(1000)
    ready()
    torch.distributed.all_reduce(x)  # mark: reduce


def sleepy(seconds):
    """Every operator sleeps, inside of its call, before it does what it does."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Sleepy(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            time.sleep(seconds)
            return func(*args, **(kwargs or {}))

    return Sleepy()


def call():
    import torch

    a, b = torch.ones(2, 3), torch.ones(3, 4)
    with sleepy(0):
        torch.mm(a, b)  # within it torch._dynamo is imported, where the signal must not come
    mode = sleepy(36000)
    ready()
    with mode:
        torch.mm(a, b)  # mark: call


def calls():
    """Operators in turns, each within 20 ms."""
    import torch

    a, b, c, d = torch.ones(2, 3), torch.ones(3, 4, dtype=torch.float64), torch.ones(5, 6, 7), torch.ones(1, 2, 9, 9)
    weight, bias, index = torch.ones(4, 2, 3, 3), torch.ones(4), torch.tensor([1, 0])
    with sleepy(0.02):
        for i in itertools.count():
            if i == 1:  # the first one imports
                ready()
            torch.mm(b, b.new_ones(4, 5))
            torch.add(a, a, alpha=2)
            torch.conv2d(d, weight, bias, stride=[2, 1], padding=[1, 0])
            torch.cat([a, a, a], 1)
            torch.sum(c, dim=[0, 2])
            torch.index_select(a, 0, index)
            torch.softmax(c, -2)
            torch.clamp(a, min=0.5)
            torch.where(a > 0.5, a, a)
            torch.nn.functional.layer_norm(c, [6, 7])
            torch.topk(bias, 3, 0, False)
            torch.addmm(torch.ones(5), torch.ones(6, 7), torch.ones(7, 5), beta=0.5)


def compute():
    """Not stuck: a number that is the same in every run, after "ready"."""
    import torch

    torch.set_num_threads(2)
    torch.manual_seed(1)
    x = torch.randn(200, 200, requires_grad=True)
    ready()
    for _ in range(30):
        loss = (x @ x).tanh().square().mean()
        loss.backward()
        with torch.no_grad():
            x -= x.grad
            x.grad = None
    print(loss.item().hex(), flush=True)


for place in sys.argv[1:]:
    signal.signal(signal.SIGUSR1, go_on)
    try:
        globals()[place]()
    except Next:
        pass
