"""Whether PyTorch has the kernels that a call needs in a dtype that not all functions have. Its backward says so, and a
device that computes later says anything, only when nothing can be undone: before the first such call it is tried with
tensors of ones."""
import torch

from ditrace_modes.level import LEVEL
from ditrace_modes.names import GET_STATE, LATER, SET_STATE
from ditrace_modes.native import tensors_in
from ditrace_modes.values import each, rebuilt
from ditrace_runner.errors import first_line
from ditrace_runner.functions import DROPOUT_INSIDE, DROPOUTS, RANDOM

WIDE = {torch.float32, torch.float64, torch.complex64, torch.complex128}
NARROW = {d for d in vars(torch).values() if isinstance(d, torch.dtype) and (d.is_floating_point or d.is_complex)} - WIDE
TRIED = {}  # kind of a call: why it cannot be, None: it can
TRIED_MOST = 4096


def forget_failure(device):
    """The lazy device raises an error once more, at what it computes next."""
    for _ in range(3):
        try:
            return torch.ones(1, device=device).add(1).cpu()
        except RuntimeError:
            pass


class Trial:
    def __init__(self, device, dtypes):
        self.device, self.dtypes = device, dtypes
        self.leaves, self.copies = [], {}

    def stand_in(self, x):
        """As the call's own copies are made: no leaf, of the dtype that x is cast to."""
        if isinstance(x, torch.device):
            return self.device
        if not isinstance(x, torch.Tensor):
            return self.dtypes.get(x, x) if isinstance(x, torch.dtype) else x
        if id(x) not in self.copies:
            like = torch.ones_like if x.dtype.is_floating_point or x.dtype.is_complex else torch.zeros_like
            leaf = like(x.detach(), device=self.device).requires_grad_(x.requires_grad)
            self.leaves += [leaf] * x.requires_grad
            self.copies[id(x)] = leaf.to(self.dtypes.get(x.dtype, x.dtype), copy=True)
        return self.copies[id(x)]

    def run(self, func, args, kwargs):
        given = tensors_in(func(*rebuilt(args, self.stand_in), **rebuilt(kwargs, self.stand_in)), *self.copies.values())
        wanting = [t for t in given if t.requires_grad] if torch.is_grad_enabled() else []
        if wanting:
            given += torch.autograd.grad(wanting, self.leaves, [torch.ones_like(t) for t in wanting], allow_unused=True)
        if self.device.type in LATER:
            for t in tensors_in(given):
                t.cpu()


def why_lacking(plan, args, kwargs, device, dtypes):
    """Which error the trial gives, None: none. Which numbers the CPU draws next is not changed by it."""
    kinds = tuple((x.dim(), x.dtype, x.requires_grad) if isinstance(x, torch.Tensor) else
                  type(x) if isinstance(x, (int, float)) and not isinstance(x, bool) else str(x) for x in each((args, kwargs)))
    key = plan.name, device.type, tuple(dtypes.items()), torch.is_grad_enabled(), tuple(kwargs), kinds
    if key not in TRIED:
        if len(TRIED) >= TRIED_MOST:
            TRIED.clear()
        state = GET_STATE()
        try:
            TRIED[key] = Trial(device, dtypes).run(plan.func, args, kwargs)
        except Exception as e:
            TRIED[key] = "would fail: " + next(filter(lacks_kernel, str(e).splitlines()), first_line(e))
            if device.type in LATER:
                forget_failure(device)
        finally:
            SET_STATE(state)
    return TRIED[key]


def wants_gradient(args, kwargs):
    return torch.is_grad_enabled() and not LEVEL.is_aten and any(t.requires_grad for t in tensors_in(args, kwargs))


def is_tried(plan, args, kwargs):
    """Not what others than PyTorch have written, what may speak to other processes, or what draws numbers elsewhere."""
    return not (LEVEL.is_aten or plan.is_foreign or plan.base in RANDOM | DROPOUT_INSIDE | DROPOUTS or any(
        isinstance(x, torch.Generator) for x in each((args, kwargs))))


def lacks_kernel(e):
    return "not implemented for" in str(e)
