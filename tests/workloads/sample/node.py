#!/usr/bin/env python3
"""An autograd.Function whose forward and backward take their time in a function of the program, as does what follows."""

import time

import torch


def spin():
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass


class Spins(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        spin()
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        spin()
        return grad * 2


torch.set_num_threads(1)
Spins.apply(torch.ones(4, requires_grad=True)).sum().backward()
spin()
