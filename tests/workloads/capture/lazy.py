#!/usr/bin/env python3
"""Ops on tensors whose memory holds the conjugate or the negative of their values: lazy.py FOLDER keeps the
values in FOLDER/values.pth, in the order of the calls."""

import os
import sys

import torch

values = []


def call(a, b):
    values.append((a.resolve_conj().resolve_neg().clone(), b.resolve_conj().resolve_neg().clone()))
    torch.mul(a, b)


torch.manual_seed(0)
one = torch.ones(())
x = torch.randn(4, 3, dtype=torch.complex64)
call(x.conj().imag, one)  # first of all: no other tensor has been seen yet
call(x.conj(), x)
call(x, x.t().conj().t())
call(x.conj().conj(), x)
call(torch._neg_view(torch.arange(12)), torch.arange(12))
call(torch._neg_view(x.real), one)
call(x.imag, one)
torch.save(values, os.path.join(sys.argv[1], "values.pth"))
