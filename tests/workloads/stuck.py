#!/usr/bin/env python3
"""Threads that stay where they are: the first argument says where. Says "ready PID" before the last of them gets there;
a line that a thread is to be seen at ends in a mark."""

import os
import sys
import threading
import time


def ready():
    print("ready", os.getpid(), flush=True)


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
    x = torch.ones(2000, 2000)
    ready()
    while True:
        x @ x  # mark: matmul


def backward():
    import torch

    torch.set_num_threads(1)
    x = torch.ones(1500, 1500, requires_grad=True)
    ready()
    while True:
        torch.mm(x, x).sum().backward()  # mark: backward


class Slow:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(36000)  # mark: item


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

    file, parent = sys.argv[2], os.getpid()
    if not os.fork():
        torch.distributed.init_process_group("gloo", init_method="file://" + file, rank=1, world_size=2)
        while os.getppid() == parent:
            time.sleep(0.1)
        os._exit(0)
    torch.distributed.init_process_group("gloo", init_method="file://" + file, rank=0, world_size=2)
    x = torch.ones(1000)
    ready()
    torch.distributed.all_reduce(x)  # mark: reduce


def compute():
    """Not stuck: a number that is the same in every run, after "ready"."""
    import torch

    torch.set_num_threads(2)
    torch.manual_seed(1)
    x = torch.randn(200, 200, requires_grad=True)
    ready()
    for _ in range(100):
        loss = (x @ x).tanh().square().mean()
        loss.backward()
        with torch.no_grad():
            x -= x.grad
            x.grad = None
    print(loss.item().hex(), flush=True)


globals()[sys.argv[1]]()
