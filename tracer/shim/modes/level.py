"""The mode: every function of PyTorch that the program calls passes through it."""
import contextlib
import sys
import types

import torch
import torch.overrides as functions
import torch.utils._python_dispatch as operators

from ditrace_modes.native import made


class Functions(functions.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        """For torch.compile, which looks for it in the class; PyTorch itself is given another (modes_call.c)."""
        return func(*args, **(kwargs or {}))


class Operators(operators.TorchDispatchMode):
    supports_higher_order_operators = True  # or PyTorch fails those that run functions, as flex_attention

    @classmethod
    def ignore_compile_internals(cls):
        """Or torch.compile leaves all as it is while the mode is on, and fails functions that must be one graph."""
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """The same."""
        return func(*args, **(kwargs or {}))


def resolve_operators():
    """Make the objects of operators that torch.ops has. PyTorch makes each, in Python, when its operator first meets a mode, and
    keeps a pointer to it. If two threads do so at once, one fails, or calls the object that the other one has replaced
    (PyTorch 1.13, c10/core/PyHandleCache.h and OpOverloadPacket.__getattr__)."""
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        with contextlib.suppress(Exception):  # TorchScript's own are none of the dispatcher
            getattr(getattr(getattr(torch.ops, space), name), schema.overload_name or "default")


class Level:
    """Where calls are met: at the functions of PyTorch, or at the operators of its dispatcher."""

    def __init__(self):
        self.is_aten, self.mode = False, None

    def choose(self, is_aten):
        """Once."""
        self.is_aten = is_aten
        module = operators if is_aten else functions
        self.push, self.pop = module._push_mode, module._pop_mode
        if is_aten:
            resolve_operators()

    def make(self):
        """Once, behind all that it asks."""
        self.mode = made(Operators if self.is_aten else Functions, self.is_aten, types.MethodType)

    def stack(self):
        """The modes of this thread, the one that is asked first last."""
        n = torch._C._len_torch_dispatch_stack() if self.is_aten else torch._C._len_torch_function_stack()
        at = torch._C._get_dispatch_stack_at if self.is_aten else torch._C._get_function_stack_at
        return [at(i) for i in range(n)]

    def is_on(self):
        return any(m is self.mode for m in self.stack())

    def is_alone(self):
        return [m is self.mode for m in self.stack()] == [True]

    def lifted(self, most, wanted=lambda mode: True):
        """Up to so many modes, the topmost first, off the stack."""
        found = []
        while len(found) < most and wanted(self.stack()[-1]):
            found.append(self.pop())
        return found

    def put_on(self):
        """Beneath the modes of the program, which are asked before it and are left in the order they were entered in,
        but for one that asks to be the lowest of all. Those of PyTorch itself have places of their own."""
        if any(getattr(m, "_mode_key", None) is not None for m in self.stack()):
            return
        above = self.lifted(len(self.stack()), lambda mode: not is_lowest(mode))
        for m in (self.mode, *reversed(above)):
            self.push(m)

    def take_off(self):
        """Those of the program stay as they are."""
        places = [i for i, m in enumerate(self.stack()) if m is self.mode]
        if not places or any(getattr(m, "_mode_key", None) is not None for m in self.stack()):
            return False
        above = self.lifted(len(self.stack()) - places[-1] - 1)
        self.pop()
        for m in reversed(above):
            self.push(m)
        return True


def is_lowest(mode):
    """torch.set_default_device: it may dig itself in at the bottom, and then insists on being there when it ends."""
    kind = getattr(sys.modules.get("torch.utils._device"), "DeviceContext", None)
    return kind is not None and isinstance(mode, kind) and "cur_stack" in kind.__exit__.__code__.co_varnames


LEVEL = Level()
