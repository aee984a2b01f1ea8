"""Functions and methods over tensors that are none of PyTorch's."""
import torch

from .mod import nest  # noqa: F401


class Scaler(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x, *, bias=0.5):
        return {"out": [x * self.w + bias], "sum": (x.sum(), None)}

    @staticmethod
    def twice(x):
        return x * 2

    @classmethod
    def thrice(cls, x):
        return x * 3


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0]


class Box:
    def __init__(self, x):
        self.x = x


def boxed(x):
    return Box(x + 1)


def square(x):
    return Square.apply(x)


def wrong(x):
    """Not the same on the device."""
    return x * (2.0 if x.device.type == "cpu" else 2.01)
