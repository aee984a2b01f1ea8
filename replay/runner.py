# Runs captured op calls again, and computes what they are judged against. Started by ditrace:
#   python runner.py REQUESTS REPLIES ARENA      (three inherited file descriptors)
# Requests and replies are lines of JSON; tensors lie in the arena, a memory file, and a reply says
# where. After a reply that has tensors the next line of the requests must be "go": the arena may be
# used again then. No word is written to standard output.
import json
import mmap
import os
import pickle
import sys
import time
import zipfile

if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, which is none

import torch

ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53,
            torch.complex64: 2.0**-24, torch.complex128: 2.0**-53}
SPACING = {}  # of dtypes that cannot be computed with
for _name, _bits in (("float8_e5m2", 3), ("float8_e4m3fn", 4), ("float8_e5m2fnuz", 3), ("float8_e4m3fnuz", 4)):
    if hasattr(torch, _name):
        SPACING[getattr(torch, _name)] = 2.0**-_bits
ROUNDOFF.update(SPACING)
PROBES = 4  # times that the inputs are moved
MANY = 6  # inputs of one element from which on the op is taken for a sum


class Refused(Exception):
    """This call is not run or judged, for a reason that is no fault."""


class Skipped(Refused):
    """This call has nothing that could be compared."""


class Damaged(Exception):
    """A file that cannot be read."""


# ---------------------------------------------------------------------------------------------
# Reading captures. What a pickle may name is listed here; all else is refused.

STORAGES = {"FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16",
            "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16",
            "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
            "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128", "UntypedStorage": "uint8"}


class StorageType:
    def __init__(self, name):
        self.dtype = getattr(torch, STORAGES[name])


class Stored:
    """The bytes of a storage, and where it lay."""

    def __init__(self, data, dtype, location):
        self.dtype, self.location = dtype, location
        if len(data):
            self.bytes = torch.frombuffer(data, dtype=torch.uint8)
        else:
            self.bytes = torch.empty(0, dtype=torch.uint8)

    def tensor(self, dtype, offset, size, stride):
        item = torch.empty(0, dtype=dtype).element_size()
        whole = self.bytes[:len(self.bytes) // item * item].view(dtype) if dtype != torch.uint8 else self.bytes
        last = offset + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else 0
        if offset < 0 or any(s < 0 for s in stride) or any(n < 0 for n in size) or last >= max(len(whole), 1):
            raise Damaged(f"a tensor of {list(size)} at {offset} reaches beyond its storage of {len(whole)} elements")
        if all(size) and not len(whole):
            raise Damaged(f"a tensor of {list(size)} has no storage")
        return torch.as_strided(whole, size, stride, offset)


LOCATIONS = "_ditrace_location"  # attribute of a loaded tensor: the device it was on


def rebuild(stored, offset, size, stride, requires_grad=False, hooks=None, *more):
    dtype = next((m for m in more if isinstance(m, torch.dtype)), stored.dtype)
    t = stored.tensor(dtype, offset, size, stride)
    if requires_grad and (dtype.is_floating_point or dtype.is_complex):
        t.requires_grad_(True)
    setattr(t, LOCATIONS, stored.location)
    for extra in more:
        if isinstance(extra, dict):
            t = t.conj() if extra.get("conj") else t
            t = torch._neg_view(t) if extra.get("neg") else t
    return t


def rebuild_parameter(data, requires_grad, hooks=None, *state):
    t = data.detach().requires_grad_(bool(requires_grad))
    setattr(t, LOCATIONS, getattr(data, LOCATIONS, "cpu"))
    return t


def layout(name):
    return getattr(torch, str(name).rsplit(".", 1)[-1])


def make_set(items=()):
    return set(items)


HARMLESS = {("torch._utils", "_rebuild_tensor_v2"): rebuild, ("torch._utils", "_rebuild_tensor"): rebuild,
            ("torch._utils", "_rebuild_tensor_v3"): rebuild,
            ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
            ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter,
            ("torch.serialization", "_get_layout"): layout, ("torch", "device"): torch.device,
            ("torch", "Size"): torch.Size, ("collections", "OrderedDict"): dict,
            ("builtins", "complex"): complex, ("__builtin__", "complex"): complex,
            ("builtins", "slice"): slice, ("__builtin__", "slice"): slice, ("builtins", "range"): range,
            ("builtins", "set"): make_set, ("__builtin__", "set"): make_set,
            ("builtins", "Ellipsis"): Ellipsis, ("__builtin__", "Ellipsis"): Ellipsis,
            ("builtins", "NotImplemented"): NotImplemented,
            ("torch", "contiguous_format"): torch.contiguous_format, ("torch", "channels_last"): torch.channels_last,
            ("torch", "channels_last_3d"): torch.channels_last_3d, ("torch", "preserve_format"): torch.preserve_format}


class Careful(pickle._Unpickler):
    """Of what a pickle can do, what captures need: no code of the file's choice runs."""

    dispatch = dict(pickle._Unpickler.dispatch)

    def __init__(self, file, persistent):
        super().__init__(file, encoding="utf-8")
        self.persistent = persistent

    def find_class(self, module, name):
        known = HARMLESS.get((module, name))
        if known is not None:
            return known
        if module in ("torch", "torch.storage") and name in STORAGES:
            return StorageType(name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if module == "torch.return_types" and isinstance(getattr(torch.return_types, name, None), type):
            return getattr(torch.return_types, name)
        raise Refused(f"wants {module}.{name}")

    def persistent_load(self, pid):
        return self.persistent(pid)

    def load_reduce(self):
        args = self.stack.pop()
        func = self.stack[-1]
        if not (func in HARMLESS.values() if not isinstance(func, type) else self.is_harmless_type(func)):
            raise Refused(f"wants to call {func!r}")
        self.stack[-1] = func(*args)

    @staticmethod
    def is_harmless_type(t):
        return t in HARMLESS.values() or t.__module__ == "torch.return_types"

    def load_build(self):
        state = self.stack.pop()
        if not (isinstance(self.stack[-1], (torch.Tensor, dict)) and (state == {} or isinstance(state, dict))):
            raise Refused(f"wants to set the state of {type(self.stack[-1]).__name__}")

    def refuse_opcode(self):
        raise Refused("wants an instance of a class")

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.BUILD[0]] = load_build
    for _op in (pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4):
        dispatch[_op[0]] = refuse_opcode


def read_zip(path):
    with zipfile.ZipFile(path) as z:
        names = z.namelist()
        top = next((n[:-len("data.pkl")] for n in names if n.endswith("/data.pkl")), None)
        if top is None:
            raise Damaged("there is no data.pkl in it")
        if top + "byteorder" in names and z.read(top + "byteorder") != b"little":
            raise Damaged("it was written on a big-endian machine")
        loaded = {}

        def storage(pid):
            if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage" and isinstance(pid[1], StorageType)):
                raise Damaged("a storage that is none")
            kind, key, location, numel = pid[1:]
            if key not in loaded:
                try:
                    data = bytearray(z.read(f"{top}data/{key}"))
                except KeyError:
                    raise Damaged(f"the storage data/{key} is missing") from None
                item = torch.empty(0, dtype=kind.dtype).element_size()
                if len(data) < numel * item:
                    raise Damaged(f"the storage data/{key} has {len(data)} bytes instead of {numel * item}")
                loaded[key] = Stored(data, kind.dtype, location)
            return loaded[key]

        with z.open(top + "data.pkl") as f:
            return Careful(f, storage).load()


def load(path, trust):
    """The dict of one file of a capture."""
    name = os.path.basename(path)
    try:
        if trust:
            try:
                d = torch.load(path, map_location="cpu", weights_only=False)
            except TypeError:
                d = torch.load(path, map_location="cpu")
        else:
            d = read_zip(path)
    except Refused as e:
        raise Refused(f"{name} {e}, which is more than numbers") from None
    except Damaged as e:
        raise Damaged(f"{name}: {e}") from None
    except zipfile.BadZipFile as e:
        raise Damaged(f"{name}: {e}") from None
    except MemoryError:
        raise
    except Exception as e:  # whatever a damaged pickle brings about
        raise Damaged(f"{name}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else 'cannot be read'}") from None
    if not (isinstance(d, dict) and isinstance(d.get("name"), str) and isinstance(d.get("args"), (tuple, list)) and
            isinstance(d.get("kwargs") or {}, dict)):
        raise Damaged(f"{name} has not the name, args and kwargs of a capture")
    return d


# ---------------------------------------------------------------------------------------------
# Which function a name stands for. Only PyTorch's own ops, unless the captures are trusted.

FACTORIES = set("""zeros ones full arange range eye linspace logspace tensor as_tensor scalar_tensor empty
    empty_strided rand randn randint randperm normal bartlett_window blackman_window hamming_window hann_window
    kaiser_window tril_indices triu_indices complex polar from_numpy asarray""".split())
NOT_OPS = set("from_file save load set_ _save_for".split())
UNINITIALISED = set("empty empty_like empty_strided new_empty new_empty_strided empty_permuted resize_ resize_as_ "
                    "resize _efficientzerotensor".split())
RANDOM = set("""rand rand_like randn randn_like randint randint_like randperm normal normal_ uniform uniform_ random
    random_ bernoulli bernoulli_ poisson poisson_ multinomial exponential_ geometric_ cauchy_ log_normal_
    native_dropout rrelu rrelu_ rrelu_with_noise gumbel_softmax fractional_max_pool2d fractional_max_pool3d
    kaiming_uniform_ kaiming_normal_ xavier_uniform_ xavier_normal_ trunc_normal_ binomial _sample_dirichlet
    _standard_gamma""".split())
DROPOUTS = set("dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout alpha_dropout_ feature_dropout "
               "feature_dropout_ feature_alpha_dropout feature_alpha_dropout_".split())
# Data movement and selection: every element of the result is one of the inputs, or a constant.
MOVES = set("""view reshape transpose permute expand expand_as contiguous clone detach t T mT movedim swapaxes swapdims
    cat concat concatenate stack hstack vstack split split_with_sizes chunk unsafe_chunk unsafe_split unbind
    index_select gather take take_along_dim select slice narrow __getitem__ index squeeze unsqueeze flatten ravel
    unflatten flip fliplr flipud roll rot90 repeat repeat_interleave tile where masked_fill masked_fill_
    masked_select tril triu diag diagonal diag_embed embedding relu relu_ clamp clamp_ clamp_min clamp_max abs abs_
    neg neg_ zeros ones full zeros_like ones_like full_like zero_ fill_ new_zeros new_ones new_full
    max min amax amin maximum minimum sort topk argsort argmax argmin kthvalue median view_as
    as_strided as_strided_ alias lift_fresh unfold_copy detach_ pad constant_pad_nd hardtanh relu6 sign max_pool1d
    max_pool2d max_pool3d max_pool2d_with_indices one_hot index_fill index_fill_ scatter scatter_ channel_shuffle
    pixel_shuffle pixel_unshuffle broadcast_to real imag select_scatter slice_scatter diagonal_scatter eye
    nonzero bitwise_and bitwise_or bitwise_not logical_and logical_or logical_not threshold threshold_
    _reshape_alias _unsafe_view masked_scatter masked_scatter_ unsafe_split_with_sizes unfold positive
    select_copy view_copy tril_ triu_ squeeze_ unsqueeze_ transpose_ t_ swapdims_ swapaxes_ __setitem__
    eq ne lt le gt ge isnan isinf isfinite __and__ __or__ __xor__ __invert__ __eq__ __ne__ __lt__ __le__ __gt__
    __ge__ __neg__ __abs__ __pos__""".split())
CASTS = set("to _to_copy copy_ type type_as float double half bfloat16 cpu cuda to_dense".split())
BITS = set("nextafter frexp".split())  # what float64 cannot stand in for
ORDERED = set("sort topk argsort argmax argmin max min kthvalue median mode cummax cummin".split())


def base_name(name):
    """"add" of torch.Tensor.add, aten::add.Tensor, torch.ops.aten.add.Tensor."""
    if "::" in name:
        return name.split("::", 1)[1].split(".", 1)[0]
    parts = name.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) > 3:
        return parts[3]
    return parts[1] if parts[0] == "aten" and len(parts) > 1 else parts[-1]


def operator(namespace, rest):
    if namespace not in ("aten", "prims", "torchvision", "quantized") and not namespace.isidentifier():
        raise Refused(f"{namespace!r} is no namespace of operators")
    packet = getattr(getattr(torch.ops, namespace), rest[0], None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        raise Refused(f"this PyTorch {torch.__version__} has no operator {namespace}::{rest[0]}")
    if len(rest) == 1:
        return packet
    found = getattr(packet, rest[1], None)
    if not isinstance(found, torch._ops.OpOverload):
        raise Refused(f"this PyTorch {torch.__version__} has no operator {namespace}::{rest[0]}.{rest[1]}")
    return found


class Functions:
    def __init__(self):
        self.known = {}
        namespaces = {"torch": torch, "torch.functional": torch.functional, "torch.nn.functional": torch.nn.functional,
                      "torch.Tensor": torch.Tensor, "torch.linalg": torch.linalg, "torch.fft": torch.fft,
                      "torch.special": torch.special, "torch._C._nn": torch._C._nn}
        overridable = set()
        for functions in torch.overrides.get_overridable_functions().values():
            overridable.update(id(f) for f in functions)
        self.namespaces, self.overridable = namespaces, overridable

    def find(self, name, trust):
        if "::" in name:
            return operator(*(lambda a, b: (a, b.split(".")))(*name.split("::", 1)))
        parts = name.split(".")
        if base_name(name) in NOT_OPS:
            raise Refused(f"{name} is no op that computes")
        if parts[:2] == ["torch", "ops"] and len(parts) in (4, 5):
            return operator(parts[2], parts[3:])
        if parts[0] == "aten" and len(parts) in (2, 3):
            return operator("aten", parts[1:])
        space, last = ".".join(parts[:-1]), parts[-1]
        if space in self.namespaces:
            f = getattr(self.namespaces[space], last, None)
            if f is None:
                raise Refused(f"this PyTorch {torch.__version__} has no {name}")
            if id(f) in self.overridable or (space == "torch" and last in FACTORIES) or self.is_method(space, last, f):
                return f
        if not trust:
            raise Refused(f"{name} is no op of PyTorch; with --trust whatever it names is called")
        import importlib
        f = importlib.import_module(parts[0])
        for p in parts[1:]:
            f = getattr(f, p)
        return f

    @staticmethod
    def is_method(space, last, f):
        """Methods in C that are not in the list of what can be overridden, such as new_zeros."""
        return space in ("torch.Tensor", "torch._C._nn") and type(f).__name__ in (
            "method_descriptor", "wrapper_descriptor", "builtin_function_or_method") and not last.startswith(
                ("__reduce", "__setstate", "__class", "__init", "__new", "__del", "__get", "__sub__class")) or (
                    space == "torch.Tensor" and last == "__getitem__")


# ---------------------------------------------------------------------------------------------
# Arguments and results.

def walk(x, path=""):
    """(path, leaf) of every leaf in a nest of tuples, lists and dicts."""
    if isinstance(x, dict):
        for k, v in x.items():
            yield from walk(v, f"{path}[{k}]")
    elif isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        for i, v in enumerate(x):
            yield from walk(v, f"{path}[{i}]")
    else:
        yield path, x


def convert(x, f):
    """The same nest with f(leaf) for every leaf."""
    if isinstance(x, dict):
        return {k: convert(v, f) for k, v in x.items()}
    if isinstance(x, torch.Size):
        return x
    if isinstance(x, (tuple, list)):
        made = [convert(v, f) for v in x]
        return made if isinstance(x, list) else tuple(made)
    return f(x)


def is_float(t):
    return t.dtype.is_floating_point or t.dtype.is_complex


def wide(dtype):
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


class Call:
    """One way to run a captured call: where, in which dtype, with which noise on the inputs."""

    def __init__(self, capture, device="cpu", to64=False, dtype=None, noise=None):
        self.capture, self.device, self.to64, self.dtype, self.noise = capture, device, to64, dtype, noise
        self.copies, self.leaves, self.results, self.edges, self.input_grads = {}, [], None, None, None

    def dtype_of(self, dtype):
        if self.to64:
            return wide(dtype)
        if self.dtype is not None and dtype.is_floating_point:
            return self.dtype
        return dtype

    def copy(self, t):
        if id(t) in self.copies:
            return self.copies[id(t)]
        dtype = self.capture.dtype if self.capture.dtype and t.dtype.is_floating_point else t.dtype
        with torch.no_grad():
            new = self.copy_storage(t) if self.capture.is_strided else t.detach().to(dtype, copy=True).to(self.dtype_of(dtype))
            if self.noise and is_float(t) and new.numel():
                new = self.noise(new, dtype)
            if self.device != "cpu":
                new = new.to(self.device)
        wanted = t.requires_grad and self.capture.differentiable
        if wanted:
            new.requires_grad_(True)
        self.copies[id(t)] = new
        return new

    def copy_storage(self, t):
        base = torch.empty(0, dtype=t.dtype).set_(t.detach().storage() if not hasattr(t, "untyped_storage") else
                                                  t.detach().untyped_storage(), 0,
                                                  [t.detach().storage().size() if not hasattr(t, "untyped_storage") else
                                                   t.detach().untyped_storage().nbytes() // t.element_size()])
        return base.to(self.dtype_of(t.dtype), copy=True).as_strided(t.size(), t.stride(), t.storage_offset())

    def argument(self, x):
        if isinstance(x, torch.Tensor):
            new = self.copy(x)
            # A leaf must not be changed in place, nor be the result of a view.
            if new.requires_grad:
                return new.clone() if self.capture.changes_inputs else new
            return new
        if isinstance(x, torch.dtype):
            return self.dtype_of(self.capture.dtype if self.capture.dtype and x.is_floating_point else x)
        if isinstance(x, torch.device):
            return torch.device(self.device)
        return x

    def keyword(self, k, v):
        if k == "device" and v is not None:
            return torch.device(self.device)
        if k == "pin_memory":
            return False
        return convert(v, self.argument)

    def prepare(self):
        c = self.capture
        self.copies = {}
        args = convert(tuple(c.args), self.argument)
        kwargs = {k: self.keyword(k, v) for k, v in c.kwargs.items()}
        return args, kwargs

    def forward(self):
        c = self.capture
        args, kwargs = self.prepare()
        self.made_args, self.made_kwargs = args, kwargs
        with torch.set_grad_enabled(c.differentiable):
            r = c.function(*args, **kwargs)
        if r is None and c.changes_inputs:  # __setitem__ and the like
            r = args[0]
        self.results = r
        return r

    def backward(self, grad_outputs, keep=False):
        """Gradients of all captured inputs that want one, and those that the node of the results gives."""
        outs = [(p, t) for p, t in walk(self.results) if isinstance(t, torch.Tensor) and t.requires_grad and t.grad_fn]
        self.leaves = self.capture.leaves()
        if not outs or not self.leaves:
            raise Refused("no result that a gradient could flow from")
        pairs = self.match_grad_outputs(outs, grad_outputs)
        inputs = [self.copies[id(t)] for _, t in self.leaves]
        seen = []
        hook = pairs[0][0].grad_fn.register_hook(lambda gi, go: seen.append(gi))
        try:
            grads = torch.autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True,
                                        retain_graph=keep)
        finally:
            hook.remove()
        self.input_grads = [(p, None if g is None else g.detach()) for (p, _), g in zip(self.leaves, grads)]
        self.edges = list(seen[0]) if seen else []

    def match_grad_outputs(self, outs, grads):
        def fit(t, g):
            g = self.copy(g) if isinstance(g, torch.Tensor) else g
            return g.to(t.dtype) if g.dtype != t.dtype else g

        if len({id(t.grad_fn) for _, t in outs}) == 1:
            pairs = [(t, grads[t.output_nr]) for _, t in outs if t.output_nr < len(grads) and
                     isinstance(grads[t.output_nr], torch.Tensor)]
        else:
            known = [g for g in grads if isinstance(g, torch.Tensor)]
            fitting = [t for _, t in outs if len(known) == 1 and t.shape == known[0].shape]
            if len(fitting) != 1:
                raise Refused("several results have gradients of their own, and the capture has those of one, not saying "
                              "which")
            pairs = [(fitting[0], known[0])]
        if not pairs:
            raise Refused("no captured gradient belongs to a result")
        for t, g in pairs:
            if t.shape != g.shape:
                raise Refused(f"the captured gradient of shape {list(g.shape)} is not that of a result of {list(t.shape)}")
        return [(t, fit(t, g)) for t, g in pairs]


# ---------------------------------------------------------------------------------------------
# A capture and how it is judged.

class Capture:
    def __init__(self, request, functions):
        self.dir, self.trust = request["dir"], request["trust"]
        d = load(os.path.join(self.dir, "input.pth"), self.trust)
        self.name, self.args, self.kwargs = d["name"], tuple(d["args"]), d.get("kwargs") or {}
        self.base = base_name(self.name)
        self.functions = functions
        self.tensors = [t for _, t in walk((self.args, self.kwargs)) if isinstance(t, torch.Tensor)]
        self.has_out = isinstance(self.kwargs.get("out"), (torch.Tensor, tuple, list))
        self.changes_inputs = bool(self.has_out or self.kwargs.get("inplace") or
                                   (self.base.endswith("_") and not self.base.endswith("__")) or
                                   self.base in ("__setitem__", "requires_grad_") or
                                   (self.base.startswith("__i") and self.base not in ("__invert__", "__index__", "__int__")))
        self.is_strided = self.base.startswith("as_strided")
        self.differentiable = not self.has_out and any(t.requires_grad for t in self.tensors)
        # What the op is run in instead of the captured dtype: its inputs are rounded to that first.
        self.dtype = getattr(torch, request["dtype"]) if request.get("dtype") else None
        self.function = None
        self.location = next((getattr(t, LOCATIONS, "cpu") for t in self.tensors), "cpu")
        if self.location == "cpu" and self.trust:
            self.location = next((str(t.device) for t in self.tensors), "cpu")
        device = self.kwargs.get("device")
        if device is not None and not self.tensors:
            self.location = str(device)

    def resolve(self):
        self.function = self.functions.find(self.name, self.trust)

    def file(self, part):
        path = os.path.join(self.dir, part + ".pth")
        return load(path, self.trust) if os.path.exists(path) else None

    def leaves(self):
        seen, found = set(), []
        for path, t in walk((self.args, self.kwargs)):
            if isinstance(t, torch.Tensor) and t.requires_grad and id(t) not in seen:
                seen.add(id(t))
                found.append((self.input_name(path), t))
        return found

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
        if self.base == "scaled_dot_product_attention":
            return bool(self.kwargs.get("dropout_p", self.args[4] if len(self.args) > 4 else 0.0))
        if "generator" in self.kwargs and self.kwargs["generator"] is not None or self.base in RANDOM:
            return True
        tags = getattr(self.function, "tags", ())
        seeded = getattr(getattr(torch, "Tag", None), "nondeterministic_seeded", None)
        return seeded is not None and seeded in (tags or ()) and "dropout" not in self.base

    def check_comparable(self):
        if self.is_random():
            raise Skipped("a random op: its results are not compared")
        if self.base in UNINITIALISED:
            raise Skipped("its result is memory that nobody wrote: not compared")

    def is_exact(self, results):
        """Do correct kernels give these results bit by bit?"""
        if self.base in MOVES:
            return not any(t.dtype.is_complex for t in self.tensors) or self.base not in ("abs", "__abs__", "sign")
        if self.base in CASTS:
            ins = {t.dtype for t in self.tensors}
            outs = {t.dtype for _, t in walk(results) if isinstance(t, torch.Tensor)}
            return ins == outs
        return False


def noise_maker(seed, cap, part):
    """Inputs moved by about one roundoff of their dtype, at most that of the results: each element by a
    random share of it, or (part) every second element, by chance."""
    gen = torch.Generator()
    gen.manual_seed(seed)

    def noise(t, dtype):
        u = min(ROUNDOFF.get(dtype, 0), cap)
        r = torch.rand(t.shape, generator=gen, dtype=torch.float64)
        size = (0.5 + 0.5 * torch.rand(t.shape, generator=gen, dtype=torch.float64)) * torch.where(r < 0.5, -1.0, 1.0)
        if part:
            size = size * (torch.rand(t.shape, generator=gen, dtype=torch.float64) < 0.5)
        return t * (1 + u * size)

    return noise


class Probe:
    """What the results do when the inputs move by a roundoff: the allowance of each element, and how many
    inputs an element depends on."""

    def __init__(self, reference, moved, capture):
        diffs = [(torch.view_as_real(m - reference) if reference.is_complex() else m - reference).abs() for m in moved]
        full = torch.stack([torch.nan_to_num(d, nan=0.0, posinf=0.0, neginf=0.0) for d in diffs[:-1]])
        typical = full.pow(2).mean(0).sqrt() if len(full) else torch.zeros_like(diffs[0])
        half = torch.nan_to_num(diffs[-1], nan=0.0, posinf=0.0, neginf=0.0)
        self.inputs = self.inputs_of(full, half)
        if self.inputs >= MANY and typical.dim():
            row = typical.pow(2).mean(-1, keepdim=True).sqrt()
            typical = torch.maximum(typical, 0.25 * row)
        self.allowance = torch.maximum(typical, half)
        self.reach = self.length(reference, capture) if self.inputs >= MANY else 1.0

    @staticmethod
    def inputs_of(full, half):
        """Of elements that move at all, a share of 2^-m stands still when every input moves by a chance of one
        half: then m inputs act on one."""
        moves = (full > 0).any(0)
        n = int(moves.sum())
        if not n:
            return 0
        still = int((moves & (half == 0)).sum())
        return float(torch.log2(torch.tensor(n / max(still, 0.5))))

    @staticmethod
    def length(reference, capture):
        """How many terms a sum in the op may have."""
        sizes = sorted((t.numel() for t in capture.tensors), reverse=True) or [1]
        out = max(reference.numel(), 1)
        longest = max([n for t in capture.tensors for n in t.shape] or [1])
        two = (sizes[0] * sizes[1] / out) ** 0.5 if len(sizes) > 1 else 0
        return max(sizes[0] / out, two, float(longest), 1.0)


def rms(t):
    if not t.numel():
        return 0.0
    t = torch.view_as_real(t) if t.is_complex() else t
    t = t.double()
    t = t[torch.isfinite(t)]
    return float(t.pow(2).mean().sqrt()) if t.numel() else 0.0


def overflow(reference, dtype, cpu):
    """Where the dtype has no such large number, infinity is right; near the end of its range so is what the
    CPU has."""
    if not (dtype.is_floating_point and reference.dtype == torch.float64 and dtype != torch.float64):
        return reference
    rounded = reference.to(dtype).double()
    reference = torch.where(torch.isinf(rounded), rounded, reference)
    if cpu is not None and cpu.shape == reference.shape:
        near = torch.isinf(cpu) & (reference.abs() > torch.finfo(dtype).max / 2)
        reference = torch.where(near, cpu.double(), reference)
    return reference


class Judge:
    """One request for the accuracy of a call."""

    def __init__(self, capture, request, talk):
        self.capture, self.request, self.talk = capture, request, talk
        self.role = None

    def run(self):
        c = self.capture
        c.resolve()
        c.check_comparable()
        grads = None if self.request["forward_only"] else c.file("grad_outputs")
        c.differentiable = c.differentiable and grads is not None
        self.run_actual(grads)
        self.reference = self.variant(grads, to64=c.base not in BITS)
        self.cpu = self.same_dtype(grads)
        cap = max([ROUNDOFF[t.dtype] for t in self.floats(self.actual_results)] or [0])
        self.moved = []
        if cap and c.base not in BITS and any(is_float(t) for t in c.tensors):
            self.moved = [self.variant(grads, to64=True, noise=noise_maker(1 + i, cap, i == PROBES - 1))
                          for i in range(PROBES)]
        self.judge_outputs()
        if grads is not None:
            self.judge_grads()

    def floats(self, results):
        return [t for _, t in walk(results) if isinstance(t, torch.Tensor) and t.dtype in ROUNDOFF]

    def variant(self, grads, **how):
        call = Call(self.capture, **how)
        call.forward()
        call.why_no_grads = None
        if grads is not None:
            try:
                call.backward(grads["args"])
            except Refused as e:
                call.why_no_grads = str(e)
        return call

    def same_dtype(self, grads):
        """The CPU in the same dtype, or where it cannot, in float32 and rounded."""
        try:
            return self.variant(grads)
        except Refused:
            raise
        except RuntimeError:
            pass
        try:
            return self.variant(grads, dtype=torch.float32)
        except RuntimeError:
            return None

    def run_actual(self, grads):
        c = self.capture
        self.actual_edges = self.actual_grads = None
        self.why_no_actual = None
        if self.request["of"] == "captured":
            out = c.file("output")
            if out is None:
                raise Refused("the capture has no output.pth; --of rerun runs the op instead")
            self.actual_results = out["args"][0] if len(out["args"]) == 1 else tuple(out["args"])
            got = None if grads is None else c.file("grad_inputs")
            if got is not None:
                self.actual_edges = list(got["args"])
            return
        call = Call(c, device=self.request["device"])
        call.forward()
        if grads is not None:
            try:
                call.backward(grads["args"])
                self.actual_grads = call.input_grads
            except Refused as e:
                self.why_no_actual = str(e)
        self.actual_results = call.results

    # --- one tensor after the other

    def judge_outputs(self):
        self.role = "output"
        if self.actual_results is None and self.capture.changes_inputs:
            self.talk.say(event="skip", role=self.role, index="",
                          reason="the op returns nothing, and the capture has not what it wrote")
            return
        actual, ref = list(walk(self.actual_results)), list(walk(self.reference.results))
        cpu = list(walk(self.cpu.results)) if self.cpu else [(p, None) for p, _ in ref]
        moved = [list(walk(m.results)) for m in self.moved]
        if len(actual) != len(ref):
            self.talk.say(event="mismatch", role=self.role, index="", reason=f"{len(actual)} results instead of {len(ref)}")
            return
        exact = self.capture.is_exact(self.actual_results)
        for i, ((path, a), (_, r)) in enumerate(zip(actual, ref)):
            self.one(path, a, r, cpu[i][1], [m[i][1] for m in moved if i < len(m)], exact, i)

    def judge_grads(self):
        self.role = "grad"
        why = self.reference.why_no_grads or self.why_no_actual
        if why:
            self.talk.say(event="skip", role=self.role, index="", reason=why)
            return
        cpu_ok = self.cpu is not None and not self.cpu.why_no_grads
        if self.actual_edges is not None:
            self.judge_edges(cpu_ok)
            return
        if self.actual_grads is None:
            if self.request["of"] == "captured":
                self.talk.say(event="skip", role=self.role, index="", reason="the capture has no grad_inputs.pth")
            return
        for i, (path, a) in enumerate(self.actual_grads):
            self.one(path, a, self.reference.input_grads[i][1], self.cpu.input_grads[i][1] if cpu_ok else None,
                     [m.input_grads[i][1] for m in self.moved], False, i)

    def judge_edges(self, cpu_ok):
        """Captured gradients are those of the edges of the node. The reference has the same node when its
        gradients have the same shapes; else each goes to the one input of its shape."""
        got, edges = self.actual_edges, self.reference.edges

        def shape(t):
            return tuple(t.shape) if isinstance(t, torch.Tensor) else None

        if len(got) == len(edges) and all(g is None or e is None or shape(g) == shape(e) for g, e in zip(got, edges)):
            for i, g in enumerate(got):
                if edges[i] is None or g is None:
                    continue
                self.one(self.edge_name(edges[i], i), g, edges[i],
                         self.cpu.edges[i] if cpu_ok and len(self.cpu.edges) == len(edges) else None,
                         [m.edges[i] for m in self.moved if m.edges and len(m.edges) == len(edges)], False, i)
            return
        for i, g in enumerate(got):
            if g is None:
                continue
            same = [k for k, (_, r) in enumerate(self.reference.input_grads) if shape(r) == shape(g)]
            if len(same) != 1:
                self.talk.say(event="skip", role=self.role, index=str(i),
                              reason="which input this gradient belongs to cannot be told: here the op has other nodes")
                continue
            k = same[0]
            self.one(self.reference.input_grads[k][0], g, self.reference.input_grads[k][1],
                     self.cpu.input_grads[k][1] if cpu_ok else None, [m.input_grads[k][1] for m in self.moved], False, k)

    def edge_name(self, edge, i):
        names = [p for p, g in self.reference.input_grads if g is not None and g.shape == edge.shape and
                 torch.equal(g, edge.detach())]
        return names[0] if len(names) == 1 else str(i)

    def one(self, path, a, r, cpu, moved, exact, place):
        index = path.strip("[]").replace("][", ",") if self.role == "output" else path
        say = dict(role=self.role, index=index)
        if isinstance(a, torch.Tensor) != isinstance(r, torch.Tensor):
            self.talk.say(event="mismatch", reason=f"{type(a).__name__} instead of {type(r).__name__}", **say)
            return
        if not isinstance(a, torch.Tensor):
            self.value(a, r, cpu, say)
            return
        if a.shape != r.shape:
            self.talk.say(event="mismatch", reason=f"shape {list(a.shape)} instead of {list(r.shape)}", **say)
            return
        wanted = cpu.dtype if isinstance(cpu, torch.Tensor) and self.cpu and self.cpu.dtype is None else None
        if wanted is not None and a.dtype != wanted and self.request["of"] == "captured" and self.role == "output":
            self.talk.say(event="mismatch", reason=f"dtype {str(a.dtype)[6:]} instead of {str(wanted)[6:]}", **say)
            return
        say["device"] = getattr(a, LOCATIONS, str(a.device)) if self.request["of"] == "captured" else str(a.device)
        a, r = a.detach().cpu().resolve_conj(), r.detach().resolve_conj()
        cpu = cpu.detach().resolve_conj() if isinstance(cpu, torch.Tensor) and cpu.shape == r.shape else None
        if a.layout != torch.strided or r.layout != torch.strided or a.is_quantized:
            self.talk.say(event="skip", reason=f"tensors of layout {a.layout} are not compared", **say)
            return
        self.tensor(a, r, cpu, moved, exact, place, say)

    def tensor(self, a, r, cpu, moved, exact, place, say):
        c = self.capture
        dtype = str(a.dtype)[6:]
        if c.base in ORDERED and not is_float(a) and self.role == "output" and any(is_float(t) for t in c.tensors):
            note = self.ties(a, r, say)
            if note is not None:
                return
        if not is_float(a):
            if cpu is not None and cpu.dtype == a.dtype and torch.equal(a, cpu):
                r = cpu
            self.talk.tensors(dict(event="tensor", dtype=dtype, exact=True, reach=1.0, scale=0.0, **say),
                              actual=a, reference=r.to(a.dtype) if r.dtype == torch.bool or a.dtype == torch.bool else r,
                              cpu=cpu if cpu is not None and cpu.dtype == a.dtype else None)
            return
        if cpu is not None and cpu.dtype != a.dtype:
            cpu = cpu.to(a.dtype)
        r = overflow(r.to(wide(r.dtype)), a.dtype, cpu)
        if exact:
            r = r.to(a.dtype)  # the constants of the call
        probe = None
        moved = [m.detach().resolve_conj() for m in moved if isinstance(m, torch.Tensor) and m.shape == r.shape]
        if len(moved) == PROBES and is_float(r) and r.numel() and not exact:
            probe = Probe(r, moved, c)
        self.talk.tensors(dict(event="tensor", dtype=dtype, exact=exact, reach=probe.reach if probe else 1.0,
                               scale=rms(r), emulated=self.cpu is not None and self.cpu.dtype is not None, **say),
                          actual=a, reference=r, cpu=cpu, allowance=probe.allowance if probe else None)

    def ties(self, a, r, say):
        """Indices of equal elements may come in any order: then the elements they name must be the same, and
        no index may come twice. Returns None where that cannot be said."""
        c = self.capture
        source = c.args[0] if c.args and isinstance(c.args[0], torch.Tensor) else c.kwargs.get("input")
        if not isinstance(source, torch.Tensor) or torch.equal(a.to(r.dtype), r):
            return None
        dim = c.kwargs.get("dim", next((x for x in c.args[1:] if isinstance(x, int) and not isinstance(x, bool)), None))
        if c.base in ("topk", "kthvalue"):
            numbers = [x for x in c.args[1:] if isinstance(x, int) and not isinstance(x, bool)]
            dim = c.kwargs.get("dim", numbers[-1] if len(numbers) > (0 if "k" in c.kwargs else 1) else -1)
        elif c.base in ("sort", "argsort") and dim is None:
            dim = -1
        source = source.detach()
        if dim is None:
            source, dim = source.reshape(-1), 0
            a, r = a.reshape(-1), r.reshape(-1)
        lost = a.dim() < source.dim()
        ai, ri = (a.unsqueeze(dim), r.unsqueeze(dim)) if lost else (a, r)
        if int(ai.min()) < 0 or int(ai.max()) >= source.shape[dim]:
            return None
        named, wanted = source.gather(dim, ai.long()), source.gather(dim, ri.long())
        if not torch.equal(torch.nan_to_num(named), torch.nan_to_num(wanted)):
            return None
        ordered = ai.sort(dim)[0]
        if ai.shape[dim] > 1 and c.base not in ("cummax", "cummin") and bool(
                (ordered.narrow(dim, 1, ai.shape[dim] - 1) == ordered.narrow(dim, 0, ai.shape[dim] - 1)).any()):
            return None
        self.talk.tensors(dict(event="tensor", dtype=str(a.dtype)[6:], exact=True, reach=1.0, scale=0.0,
                               note="differs in ties only", **say), actual=ri, reference=ri, cpu=None)
        return "ties"

    def value(self, a, r, cpu, say):
        same = a == r or (a != a and r != r)
        if not same and isinstance(a, float) and isinstance(r, (float, int)):
            u = max([ROUNDOFF[t.dtype] for t in self.capture.tensors if t.dtype in ROUNDOFF] or [2.0**-53])
            same = abs(a - r) <= 4 * u * abs(r) or a == cpu
        try:
            same = bool(same)
        except Exception:
            same = False
        self.talk.say(event="value", equal=same, actual=repr(a)[:200], reference=repr(r)[:200], **say)


# ---------------------------------------------------------------------------------------------
# Times.

def synchronize(device):
    kind = device.split(":")[0]
    if kind == "lazy":
        import torch._lazy
        torch._lazy.mark_step(wait=True)
    elif kind not in ("cpu", "meta"):
        module = getattr(torch, kind, None)
        if hasattr(module, "synchronize"):
            module.synchronize()


def describe(x):
    """What save_op_args.py of ditorch puts into the JSON and the CSV."""
    if isinstance(x, torch.Tensor):
        return {"device": getattr(x, LOCATIONS, str(x.device)), "dtype": str(x.dtype)[6:], "numel": x.numel(),
                "shape": str(tuple(x.shape)), "stride": tuple(x.stride()) if x.layout == torch.strided else None,
                "requires_grad": x.requires_grad, "layout": str(x.layout), "data_ptr": x.data_ptr() if x.device.type != "lazy" else 0}
    if isinstance(x, dict):
        return {k: describe(v) for k, v in x.items()}
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        made = [describe(v) for v in x]
        return made if isinstance(x, list) else tuple(made)
    return str(x)


def described(args, kwargs=None):
    d = {"args": describe(tuple(args))}
    if kwargs:
        d["kwargs"] = describe(kwargs)
    return str(d)


def measure(capture, request, talk):
    c, device = capture, request["device"]
    c.resolve()
    grads = None if request["forward_only"] else c.file("grad_outputs")
    c.differentiable = c.differentiable and grads is not None
    call = Call(c, device=device)
    forward, backward, why, texts = [], [], None, {}
    for i in range(request["times"]):
        if i == 0 or c.changes_inputs:
            args, kwargs = call.prepare()
        synchronize(device)
        with torch.set_grad_enabled(c.differentiable):
            start = time.perf_counter_ns()
            r = c.function(*args, **kwargs)
            synchronize(device)
            forward.append(time.perf_counter_ns() - start)
        call.results = args[0] if r is None and c.changes_inputs else r
        if i == 0:
            texts = {"input": described(args, kwargs), "output": described((call.results,))}
        if grads is None or not c.differentiable:
            continue
        try:
            outs = [(p, t) for p, t in walk(call.results) if isinstance(t, torch.Tensor) and t.requires_grad and t.grad_fn]
            pairs = call.match_grad_outputs(outs, grads["args"]) if outs else []
            inputs = [call.copies[id(t)] for _, t in c.leaves()]
            if not pairs:
                raise Refused("no result that a gradient could flow from")
        except Refused as e:
            why = str(e)
            continue
        synchronize(device)
        start = time.perf_counter_ns()
        got = torch.autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
        synchronize(device)
        backward.append(time.perf_counter_ns() - start)
        if i == 0:
            texts["grad_inputs"] = described(tuple(g for g in got if g is not None))
            texts["grad_outputs"] = described(tuple(g for _, g in pairs))
    talk.say(event="times", forward=forward, backward=backward, device=device, why_no_backward=why, **texts)


# ---------------------------------------------------------------------------------------------
# Two captures of the same call.

def pair(request, talk):
    both = [{p: load(os.path.join(d, p + ".pth"), request["trust"]) for p in ("input", "output", "grad_outputs", "grad_inputs")
             if os.path.exists(os.path.join(d, p + ".pth"))} for d in (request["dir"], request["other"])]
    name = both[0].get("input", {}).get("name", "")
    for part, role in (("input", "input"), ("output", "output"), ("grad_outputs", "grad_output"), ("grad_inputs", "grad")):
        if (part in both[0]) != (part in both[1]):
            talk.say(event="mismatch", role=role, index="", reason=f"only one of the two has {part}.pth")
        elif part in both[0]:
            pair_part(role, [b[part] for b in both], both[1].get("input"), talk)
    return name


def nest_of(d, role):
    args, kwargs = tuple(d["args"]), d.get("kwargs") or {}
    if role == "output" and len(args) == 1:
        return args[0]
    return (args, kwargs) if kwargs else args


class Inputs:
    def __init__(self, d):
        self.tensors = [t for _, t in walk((d["args"], d.get("kwargs") or {})) if isinstance(t, torch.Tensor)] if d else []


def pair_part(role, both, inputs, talk):
    """Nothing is known of the op but the sizes of its inputs: a result may be as long a sum as they allow."""
    inputs = Inputs(inputs)
    a, b = (list(walk(nest_of(d, role))) for d in both)
    if len(a) != len(b):
        talk.say(event="mismatch", role=role, index="", reason=f"{len(a)} values against {len(b)}")
        return
    for (path, x), (_, y) in zip(a, b):
        say = dict(role=role, index=path.strip("[]").replace("][", ","))
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
                talk.say(event="mismatch", reason=f"{type(x).__name__} against {type(y).__name__}", **say)
            elif isinstance(x, torch.device) and isinstance(y, torch.device):
                continue
            else:
                same = x == y or (x != x and y != y)
                if not same or role != "input":
                    talk.say(event="value", equal=bool(same), actual=repr(x)[:200], reference=repr(y)[:200], **say)
        elif x.shape != y.shape:
            talk.say(event="mismatch", reason=f"shape {list(x.shape)} against {list(y.shape)}", **say)
        elif x.dtype != y.dtype:
            talk.say(event="mismatch", reason=f"dtype {str(x.dtype)[6:]} against {str(y.dtype)[6:]}", **say)
        else:
            x, y = x.detach().resolve_conj(), y.detach().resolve_conj()
            talk.tensors(dict(event="tensor", dtype=str(x.dtype)[6:], exact=not is_float(x), reach=Probe.length(y, inputs),
                              scale=rms(y) if is_float(y) else 0.0, **say), actual=x, reference=y, cpu=None)


# ---------------------------------------------------------------------------------------------
# Talking with ditrace.

class Talk:
    def __init__(self, requests, replies, arena):
        self.requests, self.replies, self.arena = os.fdopen(requests, "r"), os.fdopen(replies, "w"), arena
        self.size, self.map = 0, None

    def say(self, **what):
        self.replies.write(json.dumps(what) + "\n")
        self.replies.flush()

    def hear(self):
        line = self.requests.readline()
        return json.loads(line) if line.strip() else None

    def tensors(self, what, **tensors):
        """Put the tensors into the arena, say where, and wait until they were looked at."""
        offset, places = 0, []
        for name, t in tensors.items():
            if t is None:
                continue
            size = t.numel() * t.element_size()
            what[name] = {"offset": offset, "dtype": str(t.dtype)[6:], "shape": list(t.shape)}
            places.append((offset, t, size))
            offset = (offset + size + 63) // 64 * 64
        if offset > self.size:
            self.size = offset
            os.ftruncate(self.arena, offset)
            self.map = mmap.mmap(self.arena, offset)
        for at, t, size in places:
            if size:
                torch.frombuffer(self.map, dtype=torch.uint8, count=size, offset=at).copy_(
                    t.contiguous().reshape(-1).view(torch.uint8))
        self.say(**what)
        if self.hear() != {"go": True}:
            raise SystemExit(0)


def start_device(device):
    kind = device.split(":")[0]
    if kind == "lazy":
        import torch._lazy
        import torch._lazy.ts_backend
        torch._lazy.ts_backend.init()
    elif kind == "npu":
        import torch_npu  # noqa: F401
    elif kind == "mlu":
        import torch_mlu  # noqa: F401


STARTED = {}


def has_device(device):
    """Can tensors be made there?"""
    kind = device.split(":")[0]
    if kind not in STARTED:
        try:
            start_device(device)
            torch.zeros(1, device=device).cpu()
            STARTED[kind] = None
        except Exception as e:  # whatever a missing device brings about
            STARTED[kind] = str(e).splitlines()[0] if str(e) else type(e).__name__
    return STARTED[kind] is None


def choose(capture, request):
    """Fill in what is judged and where the op runs."""
    if request["device"] is None:
        request["device"] = capture.location
        there = has_device(capture.location)
        if request["of"] is None:
            request["of"] = "rerun" if there else "captured"
        if not there and request["of"] == "rerun" or not there and request["times"]:
            raise Refused(f"there is no {capture.location} here to run it on ({STARTED[capture.location.split(':')[0]]}); "
                          "name another with --device")
    else:
        if not has_device(request["device"]):
            raise Refused(f"there is no {request['device']} here ({STARTED[request['device'].split(':')[0]]})")
        request["of"] = request["of"] or "rerun"


def serve(request, functions, talk):
    if request["cmd"] == "pair":
        return dict(name=pair(request, talk))
    capture = Capture(request, functions)
    talk.say(event="op", name=capture.name)
    choose(capture, request)
    skipped = None
    if request["acc"]:
        try:
            Judge(capture, request, talk).run()
        except Skipped as e:
            if not request["times"]:
                raise
            skipped = str(e)
    if request["times"]:
        capture = Capture(request, functions)
        measure(capture, request, talk)
    if skipped:
        raise Skipped(skipped)
    return {}


def first_line(e):
    lines = [x for x in str(e).splitlines() if x.strip()]
    return f"{type(e).__name__}: {lines[0]}" if lines else type(e).__name__


def main():
    talk = Talk(*(int(a) for a in sys.argv[1:4]))
    if len(sys.argv) > 4:
        torch.set_num_threads(max(1, int(sys.argv[4])))
    functions = Functions()
    talk.say(event="hello", torch=torch.__version__, python=sys.version.split()[0], executable=sys.executable)
    while True:
        request = talk.hear()
        if request is None:
            return
        try:
            talk.say(event="done", **serve(request, functions, talk))
        except Skipped as e:
            talk.say(event="skipped", reason=str(e))
        except Refused as e:
            talk.say(event="refused", reason=str(e))
        except Damaged as e:
            talk.say(event="damaged", reason=str(e))
        except Exception as e:  # an op may raise anything; the next one is another matter
            talk.say(event="error", reason=first_line(e))


if __name__ == "__main__":
    main()
