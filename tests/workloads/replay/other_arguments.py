"""Calls of which the operator has arguments or results otherwise than Python's function."""
import torch
import torch.autograd.forward_ad as forward_ad
from torch.utils._python_dispatch import TorchDispatchMode


class Boxed(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


torch.set_num_threads(1)
x = torch.arange(24.0).reshape(2, 3, 4)
x.chalf(memory_format=torch.preserve_format)
x.to(torch.float64, memory_format=torch.contiguous_format)
x.to("cpu", torch.int32, memory_format=torch.preserve_format)
torch.slice_scatter(x, torch.ones(2, 2, 4), 1, 0, 2, 1)  # the last one is the default, which 1.13 does not know
x.view(torch.int16)
weight = torch.ones(5, 3, requires_grad=True)  # three more results, of which kernels without a gradient make other ones
torch.nn.functional.embedding_bag(torch.tensor([1, 2, 4]), weight, torch.tensor([0, 2]), mode="sum", padding_idx=1)
with Boxed():  # two calls: Python's, and the boxed one
    torch.addmm(x[0, 0], x[0], torch.ones(4, 4), beta=2, alpha=3)
torch.ones(3, 5, requires_grad=True)[:, :4].contiguous().sum().backward()  # of a copy without the gap: its input itself
y = torch.ones(3, requires_grad=True)
(torch.relu_(-y) + torch.nn.functional.elu_(-y)).sum().backward()  # names that functions have in torch.nn.functional alone
torch.ones(2, 3, device="meta").t().contiguous()
torch.sparse_coo_tensor(torch.tensor([[0, 1], [2, 0]]), torch.ones(2), (2, 3))  # the operator takes its layout, too
torch.split_with_sizes_copy(x, [1, 3], 2, out=[torch.empty(2, 3, 1), torch.empty(2, 3, 3)])  # returns nothing
with forward_ad.dual_level():
    forward_ad.make_dual(x, x)
