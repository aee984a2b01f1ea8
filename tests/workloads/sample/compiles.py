#!/usr/bin/env python3
"""A function through torch.compile, whose compiler takes its time in functions of its own, as does what runs."""

import time

import torch
from torch._dynamo.backends.common import aot_autograd


def spin():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass


def compiles(graph, _inputs):
    spin()
    return graph.forward


def compiles_backward(graph, _inputs):
    spin()
    return graph.forward


torch.set_num_threads(1)
step = torch.compile(
    torch.sin, backend=aot_autograd(fw_compiler=compiles, bw_compiler=compiles_backward)
)
x = torch.ones(4, requires_grad=True)
step(x).sum().backward()
spin()
