"""A device, said to be of CUDA, whose backward of a product has the precision of TF32: first it is not allowed, then it is."""
import importlib

import torch

# They are there once torch is.
live, gradients, native = (importlib.import_module(f"ditrace_modes.{name}") for name in ("live", "gradients", "native"))
plain = live.cpu_copy


def cpu_copy(t):
    new = plain(t)
    new._ditrace_location = "cuda:0"
    return new


def cut(t):
    return (t.contiguous().view(torch.int32) & -8192).view(torch.float32)


def mm(a, b):
    if a.dtype == torch.float32 and not native.is_busy():
        a, b = cut(a), cut(b)
    return (a.unsqueeze(2) * b.unsqueeze(0)).sum(1)


live.cpu_copy = gradients.cpu_copy = cpu_copy
lib = torch.library.Library("aten", "IMPL")
lib.impl("mm", mm, "CPU")
torch.manual_seed(0)
x, w = torch.randn(32, 48, requires_grad=True), torch.randn(48, 24, requires_grad=True)


def precise():
    torch.mm(x, w).backward(torch.ones(32, 24))


def fast():
    torch.mm(x, w).backward(torch.ones(32, 24))


precise()
torch.set_float32_matmul_precision("high")
fast()
