"""A captured call."""
import inspect
import json
import os
import types

import torch

from ditrace_runner.call import Call, walk
from ditrace_runner.casts import Unseen, computes_once, look_at
from ditrace_runner.errors import Damaged, Refused, Skipped
from ditrace_runner.functions import (
    BITS,
    CASTS,
    DROPOUT_INSIDE,
    DROPOUTS,
    MOVES,
    RANDOM,
    UNINITIALISED,
    VARIADIC,
    base_name,
    draws_inside,
    operator_behind,
    schema_of,
    schemas_of,
)
from ditrace_runner.load import LOCATIONS, load, open_file
from ditrace_runner.memory import is_short
from ditrace_runner.probe import HALVES

# Where the step, 1 unless it is given, stands among the arguments. PyTorch 1.13 takes some number of its own for it.
STEPS = {"slice_scatter": 5, "slice_copy": 4}
LONGEST_JSON = 64 << 20  # bytes


AUTOCAST = HALVES | {torch.float32}


def dtypes_of(results):
    return [t.dtype for _, t in walk(results) if isinstance(t, torch.Tensor)]


def is_written(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def as_function(name, args, kwargs):
    """The arguments of an operator as the function of that name takes them: several results in a tuple "out", a list of
    tensors one by one."""
    if "::" in name or name.startswith("torch.ops."):
        return args, kwargs
    if base_name(name) in VARIADIC and len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    if len(args) <= STEPS.get(base_name(name), -1) and "step" not in kwargs:
        kwargs = {**kwargs, "step": 1}
    for schema in schemas_of(name):
        outs = [a.name for a in schema.arguments if a.kwarg_only and is_written(a)]
        if len(outs) > 1 and all(out in kwargs for out in outs):
            rest = {k: v for k, v in kwargs.items() if k not in outs}
            return args, {**rest, "out": tuple(kwargs[out] for out in outs)}
    return args, kwargs


class Capture:
    def __init__(self, request, functions):
        self.dir, self.trust, self.request = request["dir"], request["trust"], request
        d = load(os.path.join(self.dir, "input.pth"), request)
        self.functions = functions
        self.take(d["name"], *as_function(d["name"], tuple(d["args"]), d.get("kwargs") or {}), request.get("dtype"))

    def take(self, name, args, kwargs, dtype):
        self.name, self.args, self.kwargs = name, args, kwargs
        self.base = base_name(self.name)
        self.tensors = [t for _, t in walk((self.args, self.kwargs)) if isinstance(t, torch.Tensor)]
        self.has_out = isinstance(self.kwargs.get("out"), (torch.Tensor, tuple, list))
        self.changes_inputs = bool(self.has_out or self.kwargs.get("inplace") or
                                   (self.base.endswith("_") and not self.base.endswith("__")) or
                                   self.base in ("__setitem__", "requires_grad_") or
                                   (self.base.startswith("__i") and self.base not in ("__invert__", "__index__", "__int__")))
        self.is_strided = self.base.startswith("as_strided")
        self.differentiable = not self.has_out and any(t.requires_grad for t in self.tensors)
        # What the op is run in instead of the captured dtype: its inputs are rounded to that first.
        self.dtype = getattr(torch, dtype, None) if dtype else None
        if dtype and self.dtype is None:
            raise Refused(f"this PyTorch {torch.__version__} has no {dtype}")
        self.is_autocast = False  # dtype is what autocast has cast its inputs to, as it seems where that cannot be looked at
        self.tells_autocast = False
        self.found = None  # what autocast casts, as it was looked at
        self.cast_to = {}  # id of a tensor: the dtype
        self.function = None
        self.numbers = set()  # ids of tensors that stand for a number of Python's
        self.location = next((getattr(t, LOCATIONS, "cpu") for t in self.tensors), "cpu")
        if self.location == "cpu" and self.trust:
            self.location = next((str(t.device) for t in self.tensors), "cpu")
        device = self.kwargs.get("device")
        if device is not None and not self.tensors:
            self.location = str(device)

    def dtype_of(self, t):
        """That in which the call has it."""
        return self.dtype if self.dtype and t.dtype.is_floating_point else self.cast_to.get(id(t), t.dtype)

    def dtypes(self):
        """Those that it computes with."""
        return {self.dtype_of(t) for t in self.tensors}

    def is_of_bits(self):
        """Does float64 not stand in for the dtypes of its inputs?"""
        return self.base in BITS or self.base in ("view", "view_copy") and any(
            isinstance(x, torch.dtype) for _, x in walk((self.args, self.kwargs)))

    def is_without_numbers(self):
        """Does it take or make tensors of the meta device?"""
        devices = [t.device for t in self.tensors]
        devices += [x for _, x in walk((self.args, self.kwargs)) if isinstance(x, torch.device)]
        return any(d.type == "meta" for d in devices) or self.kwargs.get("device") == "meta"

    def was_in_grad(self, results):
        """Was a history of the results recorded, where some input wanted a gradient? A function may choose another
        algorithm then."""
        return any(isinstance(t, torch.Tensor) and t.requires_grad for _, t in walk(results))

    def resolve(self):
        self.function = self.functions.find(self.name, self.trust)
        if self.has_out and isinstance(self.function, types.FunctionType) and "out" not in inspect.signature(self.function).parameters:
            self.function = getattr(torch._C._nn, self.base, self.function)
        schema = schema_of(self.function)
        if schema is not None and not schema.returns and any(is_written(a) for a in schema.arguments):
            self.changes_inputs = True

    def call(self, *args, **kwargs):
        """A function in C refuses arguments before it computes. Those of an operator's call that it does not take, such as the
        layout of a sparse tensor, the operator takes."""
        try:
            return self.function(*args, **kwargs)
        except TypeError as e:
            operator = operator_behind(self.name, self.function)
            if operator is None:
                raise
            try:
                result = operator(*args, **kwargs)
            except (RuntimeError, TypeError):
                raise e from None
        self.function = operator
        return result

    def written(self, args, kwargs):
        """What an op that returns nothing has written to: by name where the schema tells, else out, or the first argument."""
        schema = schema_of(self.function)
        if schema is None:
            return {"out": kwargs["out"]} if self.has_out else args[0]
        named = {a.name: args[i] if i < len(args) else kwargs.get(a.name) for i, a in enumerate(schema.arguments)
                 if is_written(a)}
        return named or args[0]

    def gives(self, dtypes):
        """Does the call, run on the CPU as it is now, give results of these dtypes?"""
        try:
            return dtypes_of(Call(self, reference=True).forward()) == dtypes
        except Exception as e:  # an operator in Python may raise anything
            if isinstance(e, (Refused, Skipped)) or is_short(e):
                raise
            return False

    def find_numbers(self, output):
        """The dispatcher has Python's numbers as tensors without dimensions, which count for less when the dtype of
        a result is chosen. A capture does not say which they are: those that it takes for the captured dtype."""
        kinds = (torch.float64, torch.int64, torch.bool, torch.complex128)
        maybe = {id(t) for t in self.tensors if not t.dim() and t.dtype in kinds and not t.requires_grad}
        if not maybe or output is None:
            return
        for self.numbers in (set(), maybe):
            if self.gives(dtypes_of(output["args"])):
                return
        self.numbers = set()

    def find_autocast(self, output):
        """Autocast runs a call with its floating inputs cast to one dtype, the result's, and a capture has those before.
        They differ from each other, or from the result, and are of no use as they are. Not all captures tell whether it was on."""
        known = self.autocast()
        self.tells_autocast = known is not None
        if self.dtype is not None or known is not None and not self.is_cast_by(known):
            return
        wanted = dtypes_of(output["args"]) if output else None
        if known and self.look(known, wanted) or wanted is None:
            return
        among = {d for d in [t.dtype for t in self.tensors] + wanted if d in AUTOCAST}
        if len(among) < 2 or not among & HALVES or self.gives(wanted):
            return
        for self.dtype in dict.fromkeys(d for d in wanted if d in AUTOCAST):
            self.is_autocast = self.gives(wanted)
            if self.is_autocast:
                return
        self.dtype = None

    def look(self, on, wanted):
        """Sees what autocast casts in a call that gave these dtypes, None: not known; False: it cannot be looked at here."""
        tensors = [t for t in self.tensors if id(t) not in self.numbers]
        try:
            found = look_at(self, tensors, on)
        except Unseen:
            found = None
        if not found or wanted not in (None, found.gave):
            if self.request["of"] == "captured" and not computes_once(self):
                raise Skipped("autocast casts what it computes inside; --of rerun runs it without")
            return False
        self.found, self.cast_to = found, found.of(tensors)
        return True

    def autocast(self):
        """{type of device: name of a dtype} of the devices for which it was on; None: the capture does not tell."""
        found = self.beside("input", "autocast")
        return found if isinstance(found, dict) else None

    def is_cast_by(self, autocast):
        """PyTorch has another name for the type of a device of a backend outside of it."""
        return bool(autocast.keys() & {self.location.split(":")[0], "privateuseone"})

    def file(self, part):
        path = os.path.join(self.dir, part + ".pth")
        return load(path, self.request) if os.path.exists(path) else None

    def node(self, part):
        """The name of the autograd node that a file is of, where the JSON beside it has it."""
        name = self.beside(part, "node")
        return name if isinstance(name, str) else None

    def beside(self, part, key):
        """What the JSON beside a file has of that name; None: nothing."""
        try:
            with open_file(os.path.join(self.dir, part + ".pth.json")) as f:
                return json.loads(f.read(LONGEST_JSON)).get(key)
        except (OSError, ValueError, AttributeError, Damaged):
            return None

    def leaves(self):
        seen, found = set(), []
        for path, t in walk((self.args, self.kwargs)):
            if isinstance(t, torch.Tensor) and t.requires_grad and id(t) not in seen:
                seen.add(id(t))
                found.append((self.input_name(path), t))
        return found

    def grads_of(self, names, grads):
        """Captured gradients that say which argument they are of, as leaves() has these."""
        found = dict(zip(names, grads))
        return [(path, found.get(path.replace("][", "[", 1) + "]" * ("][" in path))) for path, _ in self.leaves()]

    @staticmethod
    def input_name(path):
        """"0" for the first argument, "weight" for that keyword, "0][1" inside a list."""
        return path[4:-1] if path.startswith("[0][") or path.startswith("[1][") else path

    def is_random(self):
        if self.base in DROPOUTS:
            values = list(self.args[1:]) + list(self.kwargs.values())
            training = self.kwargs.get("training", self.kwargs.get("train", self.args[2] if len(self.args) > 2 else True))
            p = self.kwargs.get("p", self.args[1] if len(self.args) > 1 else 0.5)
            del values
            return bool(training) and p != 0
        if self.base in DROPOUT_INSIDE:
            return draws_inside(self.base, self.args, self.kwargs)
        if "generator" in self.kwargs and self.kwargs["generator"] is not None or self.base in RANDOM:
            return True
        tags = getattr(self.function, "tags", ())
        seeded = getattr(getattr(torch, "Tag", None), "nondeterministic_seeded", None)
        return seeded is not None and seeded in (tags or ()) and "dropout" not in self.base

    def check_comparable(self):
        if self.is_random():
            raise Skipped("a random op")
        if self.dtype is not None and self.base not in BITS and self.is_of_bits():
            raise Skipped("it shows the bits of its input, which in another dtype are others")
        if self.base in UNINITIALISED:
            raise Skipped("its result is memory that nobody wrote")

    def is_exact(self, results):
        """Do correct kernels give these results bit by bit?"""
        if self.base in MOVES:
            return not any(t.dtype.is_complex for t in self.tensors) or self.base not in ("abs", "__abs__", "sign")
        if self.base in CASTS:
            ins = {t.dtype for t in self.tensors}
            outs = {t.dtype for _, t in walk(results) if isinstance(t, torch.Tensor)}
            return ins == outs
        return False
