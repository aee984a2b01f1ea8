"""Captures as ditorch makes them, for the tests of replay: torch.save of {name, args, kwargs, identifier} in
op_tools_results/op_capture_results/OP/PID/ID/TIME. Two modes: by the functions of Python, with gradients, and
by the operators of the dispatcher.

    captures.py functions|operators|both FOLDER [--steps N] [--small]     capture the demo training

"both" captures by each, into FOLDER/functions and FOLDER/operators. --small: a model of one layer, of which
two parameters are trained: every op of the other, but not as often.
"""

import os
import sys
import time

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

NOT_CAPTURED = set("""backward data_ptr has_names numel size __repr__ __format__ type dim requires_grad_ register_hook
    is_floating_point is_complex __get__ __set__ __hash__ retain_grad stride storage_offset element_size
    is_contiguous __len__ _version detach untyped_storage storage __setstate__ __reduce_ex__ set_
    _make_subclass is_grad_enabled no_grad""".split())


def tensors_in(x):
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (tuple, list)):
        for v in x:
            yield from tensors_in(v)
    elif isinstance(x, dict):
        yield from tensors_in(list(x.values()))


class Writer:
    def __init__(self, root):
        self.root, self.id, self.calls = root, 0, 0

    def save(self, name, identifier, args, kwargs):
        # torch.save cannot write a memory format.
        kwargs = {k: v for k, v in kwargs.items() if not isinstance(v, torch.memory_format)}
        path = os.path.join(self.root, "op_tools_results/op_capture_results", name, str(os.getpid()), identifier + ".pth")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            torch.save({"name": name, "args": args, "kwargs": kwargs, "identifier": identifier}, path)
        except Exception as e:  # as ditorch: what cannot be saved is left out
            print(f"{name} can not save because {e}", file=sys.stderr)
            return False
        return True

    def next(self):
        self.id += 1
        return f"{self.id}/{time.strftime('%Y-%m-%d-%H-%M-%S', time.localtime())}"


class Functions(TorchFunctionMode):
    wrap = staticmethod(lambda func: func)  # what runs instead of an op

    def __init__(self, root):
        super().__init__()
        self.writer, self.inside = Writer(root), False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = resolve_name(func) or ""
        last = name.rsplit(".", 1)[-1]
        if self.inside or not name.startswith("torch.") or last in NOT_CAPTURED or "__get__" in name or "__set__" in name:
            return func(*args, **kwargs)
        self.inside = True
        try:
            return self.capture(func, name, args, kwargs)
        finally:
            self.inside = False

    def capture(self, func, name, args, kwargs):
        w, call = self.writer, self.writer.next()
        saved = w.save(name, f"{call}/input", args, kwargs)
        result = self.wrap(func)(*args, **kwargs)
        if not saved:
            return result
        w.calls += 1
        w.save(name, f"{call}/output", (result,), {})
        for t in tensors_in(result):
            if t.grad_fn is not None:
                self.hook(name, call, t)
        return result

    def hook(self, name, call, tensor):
        def save(grad_inputs, grad_outputs):
            handle.remove()
            self.writer.save(name, f"{call}/grad_inputs", tuple(grad_inputs), {})
            self.writer.save(name, f"{call}/grad_outputs", tuple(grad_outputs), {})

        handle = tensor.grad_fn.register_hook(save)


class Operators(TorchDispatchMode):
    def __init__(self, root):
        super().__init__()
        self.writer = Writer(root)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = "torch.ops." + str(func)
        if not name.startswith("torch.ops.aten.") or func._schema.name in ("aten::detach", "aten::lift_fresh"):
            return func(*args, **kwargs)
        w, call = self.writer, self.writer.next()
        saved = w.save(name, f"{call}/input", args, kwargs)
        result = func(*args, **kwargs)
        if saved:
            w.calls += 1
            w.save(name, f"{call}/output", (result,), {})
        return result


def main():
    modes = {"functions": Functions, "operators": Operators}
    what, folder = sys.argv[1:3]
    modes = [modes[what](folder)] if what in modes else [modes[m](os.path.join(folder, m)) for m in modes]
    steps = int(sys.argv[sys.argv.index("--steps") + 1]) if "--steps" in sys.argv else 1
    small = "--small" in sys.argv
    import train
    train.LAYERS = 1 if small else train.LAYERS
    torch.set_num_threads(1)
    for mode in modes:
        torch.manual_seed(0)
        model = train.LanguageModel()
        optimizer = torch.optim.AdamW((model.norm if small else model).parameters(), lr=1e-3)
        for _ in range(steps):
            with mode:
                train.train_step(model, optimizer)
        print(mode.writer.calls, "calls captured")


if __name__ == "__main__":
    main()
