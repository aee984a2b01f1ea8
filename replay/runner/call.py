"""Arguments and results."""
import contextlib

import torch

from ditrace_runner.errors import Refused
from ditrace_runner.portable import PORTABLE


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


def is_dense(t):
    """Do its elements fill a piece of memory, each once?"""
    expected = 1
    for stride, n in sorted((s, n) for s, n in zip(t.stride(), t.shape) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


def copied(t, dtype):
    """A copy of a tensor on the CPU that lies in memory as it does, with the gaps and over itself, unless it lies far apart:
    that decides in which order a kernel adds up."""
    if t.layout != torch.strided or t.is_quantized or not t.numel() or is_dense(t):
        return t.to("cpu", dtype, copy=True)
    reach = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
    if reach > max(16 * t.numel(), 1 << 20):
        return t.to("cpu", dtype, copy=True)
    return t.as_strided((reach,), (1,)).to("cpu", dtype, copy=True).as_strided(t.size(), t.stride())


def gapped(t):
    """The same tensor with a gap behind each element."""
    if not t.dim() or t.layout != torch.strided or t.is_quantized:
        return t
    return t.new_empty(*t.shape[:-1], 2 * t.shape[-1])[..., ::2].copy_(t)


def transposed(t):
    """The same tensor with its columns in one piece."""
    if t.dim() < 2 or t.layout != torch.strided or t.is_quantized:
        return t
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


class Saved:
    """What autograd keeps of a call, and whether that has results in it. Its backward gets `given`, if there are any, in place
    of these. It holds no tensor of the call: the graph holds the hooks."""

    def __init__(self, given):
        self.given, self.kept, self.results, self.has_results = given, [], [], False

    def keep(self, t):
        self.kept.append(place_of(t))
        return t

    def take(self, t):
        for place, given in zip(self.results, self.given or ()):
            if place == place_of(t) and given.shape == t.shape:
                return given.to(t.dtype)
        return t

    def end(self, results, inputs):
        """The call gave these."""
        tensors, others = [t for _, t in walk(results) if isinstance(t, torch.Tensor)], [place_of(t) for t in inputs]
        self.results = [place_of(t) for t in tensors]
        self.has_results = any(is_float(t) and place in self.kept and place not in others for t, place in zip(tensors, self.results))


def place_of(t):
    """Tensors with the same one are the same numbers."""
    if t.device.type != "cpu" or t.layout != torch.strided or not t.numel():
        return id(t)
    return t.data_ptr(), t.shape, t.stride(), t.is_conj()


class Call:
    """One way to run a captured call: where, in which dtype, with which noise on the inputs, with the results of which call for
    its backward; as itself, or as what it is compared with."""

    def __init__(self, capture, device="cpu", to64=False, dtype=None, noise=None, layout=None, in_grad=False, reference=False,
                 given=None):
        self.capture, self.device, self.to64, self.dtype, self.noise = capture, device, to64, dtype, noise
        self.function = PORTABLE.get(capture.base, capture.call) if reference else capture.call
        self.with_grad = in_grad or capture.differentiable
        self.layout = layout  # a function that gives a tensor another
        self.copies, self.leaves, self.results = {}, [], None
        self.saved = Saved(given)
        self.node, self.edges, self.input_grads = None, None, None

    def dtype_of(self, dtype):
        if self.to64:
            return wide(dtype)
        if self.dtype is not None and dtype.is_floating_point:
            return self.dtype
        return dtype

    def copy(self, t):
        if id(t) in self.copies:
            return self.copies[id(t)]
        dtype = self.capture.dtype_of(t)
        with torch.no_grad():
            new = self.copy_storage(t) if self.capture.is_strided else copied(t.detach(), dtype).to(self.dtype_of(dtype))
            if self.noise and is_float(t) and new.numel() and not self.capture.is_strided:
                new = self.noise(new, dtype)
            if self.layout and not self.capture.is_strided:
                new = self.layout(new)
            if self.device != "cpu":
                new = self.moved(new, t)
        wanted = t.requires_grad and self.with_grad
        if wanted:
            new.requires_grad_(True)
        self.copies[id(t)] = new
        return new

    def moved(self, new, t):
        """On the device; with all that lies around it, for as_strided."""
        if not self.capture.is_strided:
            return new.to(self.device)
        if self.device.split(":")[0] != "lazy":
            return self.storage_of(new).to(self.device).as_strided(t.size(), t.stride(), t.storage_offset())
        if t.storage_offset() or not is_dense(t):
            raise Refused("as_strided takes what lies around a tensor, which does not come along to lazy")
        return new.to(self.device)

    @staticmethod
    def storage_of(t):
        """All of it, as one row."""
        storage = t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage()
        size = storage.nbytes() // t.element_size() if hasattr(t, "untyped_storage") else storage.size()
        return torch.empty(0, dtype=t.dtype).set_(storage, 0, [size])

    def copy_storage(self, t):
        dtype = self.capture.dtype_of(t)
        base = self.storage_of(t.detach()).to(dtype, copy=True).to(self.dtype_of(dtype))
        if self.noise and is_float(t) and base.numel():
            base = self.noise(base, dtype)
        return base.as_strided(t.size(), t.stride(), t.storage_offset())

    def argument(self, x):
        if isinstance(x, torch.Tensor):
            if id(x) in self.capture.numbers:
                return x.item()
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
        # The program's own hooks on saved tensors, such as a checkpoint's, are not told of this call. Inside of
        # torch.func's transforms hooks are refused; operators below these save nothing.
        hooks = torch.autograd.graph.saved_tensors_hooks
        own = hooks(self.saved.keep, self.saved.take) if self.with_grad else contextlib.nullcontext()
        with torch.set_grad_enabled(self.with_grad), own:
            r = self.function(*args, **kwargs)
        r = c.written(args, kwargs) if r is None and c.changes_inputs else r
        self.saved.end(r, self.copies.values())
        self.results = convert(r, self.with_node) if self.with_grad else r
        return self.results

    def with_node(self, x):
        """A result that is an input, as of contiguous() where nothing is to be done, has no node that gradients reach."""
        return x.view_as(x) if any(x is t for t in self.copies.values() if t.requires_grad) else x

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
        self.node, self.edges = pairs[0][0].grad_fn.name(), list(seen[0]) if seen else []

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
