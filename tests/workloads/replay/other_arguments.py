"""Calls of which the operator has its arguments otherwise than Python's function takes them."""
import torch

torch.set_num_threads(1)
x = torch.arange(24.0).reshape(2, 3, 4)
x.chalf(memory_format=torch.preserve_format)
x.to(torch.float64, memory_format=torch.contiguous_format)
x.to("cpu", torch.int32, memory_format=torch.preserve_format)
torch.slice_scatter(x, torch.ones(2, 2, 4), 1, 0, 2, 1)  # the last one is the default, which 1.13 does not know
x.view(torch.int16)
