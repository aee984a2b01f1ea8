"""Operators that reach the dispatcher again from Python: a TorchDispatchMode, a tensor subclass with
__torch_dispatch__, a TorchFunctionMode."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class Passing(TorchDispatchMode):
    """Runs every operator again as it came."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Changing(TorchDispatchMode):
    """Runs something else as well."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result.mul(2) if function is torch.ops.aten.add.Tensor else result


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Wrapped(torch.Tensor):
    """A tensor in a tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        unwrap = lambda x: x.inner if isinstance(x, Wrapped) else x
        wrap = lambda x: Wrapped(x) if isinstance(x, torch.Tensor) else x
        return tree_map(wrap, function(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))


def section():
    x = torch.ones(3, 4)
    for mode in (Passing(), Changing()):
        with mode:
            torch.add(x, 1), x @ x.t(), torch.nn.functional.linear(x, x), x.split(2), x.max(1)
            torch.full((2,), 3), x.clone().add_(2), torch.cat([x, x], 1), x.sum().item()
    with Passing(), Passing():
        x.mul(2).relu()
    with Passing():
        w = torch.ones(4, requires_grad=True)
        (w * w).sum().backward()
    with Functions():
        x.add(1), torch.nn.functional.gelu(x)
    a = Wrapped(torch.ones(2, 3))
    a + a, a.t().mul(2), torch.sum(a, 1), a.add_(1), torch.cat([a, a])
