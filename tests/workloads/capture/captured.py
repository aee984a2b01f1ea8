#!/usr/bin/env python3
"""Calls of ops that keep a record of themselves: captured.py FOLDER.

Each call of `traced` is one op, alone at its level. Before it torch.save keeps what it is given, in
FOLDER/N.input.pth, and after it what it gave, in N.output.pth. Its gradients, N.grad_outputs.pth and N.grad_inputs.pth,
are those that a hook of its backward node sees when that is the op's own, else those that hooks of its
result and its arguments see. FOLDER/calls.json names the ops.
"""

import json
import os
import sys

import torch
import torch.nn.functional as F

NEW = int(torch.__version__.split(".")[0]) >= 2
folder = sys.argv[1]
calls = []


def traced(f, *args, **kwargs):
    return f(*args, **kwargs)


def keep(n, part, what):
    torch.save(what, os.path.join(folder, f"{n}.{part}.pth"))


def keep_flows(n, args, out):
    """What flows into the result and out of the arguments, each of which nothing else may use."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    calls[n]["of"] = [str(i) for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
    grads = [None] * len(tensors)

    def flows(i, grad):
        grads[i] = grad
        calls[n]["backward"] = True
        keep(n, "grad_inputs", tuple(grads))

    for i, t in enumerate(tensors):
        if t.requires_grad:
            t.register_hook(lambda g, i=i: flows(i, g))
    out.register_hook(lambda g: keep(n, "grad_outputs", (g,)))


def call(op, f, *args, own_node=True, apart=True, **kwargs):
    """own_node: its backward node is its own, and not that of an op that it is made of; then apart: the
    gradients of its arguments can be told from outside"""
    n = len(calls)
    calls.append({"op": op, "backward": False, "own_node": own_node, "apart": apart})
    keep(n, "input", {"args": args, "kwargs": kwargs})
    out = traced(f, *args, **kwargs)
    keep(n, "output", tuple(out) if isinstance(out, tuple) else out)  # torch.return_types.sort is a tuple

    def hook(grad_inputs, grad_outputs):
        calls[n]["backward"] = True
        keep(n, "grad_outputs", tuple(grad_outputs))
        keep(n, "grad_inputs", tuple(grad_inputs))

    first = out[0] if isinstance(out, (tuple, list)) else out
    if not own_node:
        keep_flows(n, args, out)
    elif isinstance(first, torch.Tensor) and first.grad_fn is not None:
        first.grad_fn.register_hook(hook)
    return out


def bits(dtype, n):
    """All bit patterns, so that nothing but the bytes themselves will do."""
    if dtype is torch.bool:
        return torch.randint(0, 2, (n,), dtype=torch.uint8).view(torch.bool)
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (n * size,), dtype=torch.uint8).view(dtype)


def views(t):
    """Of a tensor of 480 elements."""
    yield t
    yield t.view(20, 24).t()
    yield t.view(20, 24)[3::2, 1:20:3]
    yield t[17:33]
    yield t[5]
    yield t[2:5].view(3, 1).expand(3, 7)
    yield t.view(2, 2, 2, 3, 4, 5)[:, :, :, 1:, ::2].transpose(0, 5)
    yield t[:0]
    yield t[40:40].view(0, 3)


def every_dtype():
    names = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128", "bool", "bfloat16"]
    if NEW:
        names += ["complex32", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64"]
    for name in names:
        t = bits(getattr(torch, name), 480)
        for v in views(t):
            call("torch.clone", torch.clone, v)
        call("torch.Tensor.copy_", torch.Tensor.copy_, t[:16], t[100:116])
        call("torch.zeros_like", torch.zeros_like, t, dtype=t.dtype, layout=t.layout, device=t.device, pin_memory=False)


def arithmetic():
    for dtype in torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.int32, torch.int64:
        a = torch.arange(24).view(4, 6).to(dtype)
        b = a.flip(0) + 1
        call("torch.add", torch.add, a, b, alpha=2)
        call("torch.sub", torch.sub, a, b)
        call("torch.mul", torch.mul, a, b[1])
        call("torch.mul", torch.mul, a, 3)
        call("torch.Tensor.add_", torch.Tensor.add_, a, b)
        call("torch.Tensor.mul_", torch.Tensor.mul_, a[:, ::2], b[:, 1::2])
        call("torch.div", torch.div, a, b)
        call("torch.add", torch.add, a[0], a[1])  # one storage for both
        call("torch.cat", torch.cat, [a, b, a[1:]])
        call("torch.stack", torch.stack, [a, b], 1)
        call("torch.where", torch.where, b.abs() > 5, a, b)
        call("torch.sum", torch.sum, a)
        if not dtype.is_complex:
            call("torch.sort", torch.sort, a, -1, True)
            call("torch.max", torch.max, a, 1)
            call("torch.Tensor.to", torch.Tensor.to, a, torch.float16)
        if dtype in (torch.float32, torch.float64):
            call("torch.split_with_sizes", torch.split, a, [1, 3])
            call("torch.addmm", torch.addmm, b[0, :4], a, b.t(), beta=0.5, alpha=2)
            call("torch.clamp", torch.clamp, a, 2.5)
            call("torch.nn.functional.dropout", F.dropout, a, 0.3, False)
            call("torch.Tensor.uniform_", torch.Tensor.uniform_, b, -0.7, 1.9)
            call("torch.quantile", torch.quantile, a, 0.1)
            call("torch.baddbmm", torch.baddbmm, a[:1, :4], a.view(1, 4, 6), b.t().reshape(1, 6, 4))


def gradients():
    for dtype in torch.float32, torch.float64, torch.bfloat16:
        a = torch.linspace(-2, 2, 24).view(4, 6).to(dtype).requires_grad_()
        b = torch.linspace(1, 3, 24).view(4, 6).to(dtype).requires_grad_()
        w = torch.linspace(-1, 1, 30).view(5, 6).to(dtype).requires_grad_()
        bias = torch.ones(5, dtype=dtype, requires_grad=True)
        x = call("torch.mul", torch.mul, a, b)
        x = call("torch.add", torch.add, x, b.detach(), alpha=3)
        x = call("torch.div", torch.div, x, b)
        x = call("torch.cat", torch.cat, [x, a], 1)
        x = call("torch.narrow", torch.narrow, x, 1, 2, 6, own_node=False)
        x = call("torch.nn.functional.gelu", F.gelu, x)
        x = call("torch.nn.functional.linear", F.linear, x, w, bias, own_node=False)
        x = call("torch.addmm", torch.addmm, torch.ones(5, dtype=dtype, requires_grad=True), x[:, :5], torch.ones(5, 5, dtype=dtype))
        v, i = call("torch.sort", torch.sort, x)
        x = call("torch.Tensor.mul_", torch.Tensor.mul_, v * 1, 2)
        x = call("torch.unbind", torch.unbind, x)
        x = call("torch.stack", torch.stack, list(x[:2]))
        x = call("torch.nn.functional.layer_norm", F.layer_norm, x, [5], None, None, 0.0625, own_node=False)
        call("torch.sum", torch.sum, x).backward()
        x = call("torch.sum", torch.sum, a, 1, True)
        with torch.no_grad():
            call("torch.mul", torch.mul, a, b)
        x.backward(torch.full_like(x, 0.5))


def leaf(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype).requires_grad_()


def backward(out):
    out.backward(torch.randn(out.shape).to(out.dtype))


def broadcast():
    """Autograd sums these gradients to the shape of the argument, and gives them its dtype."""
    for f, op in (torch.add, "torch.add"), (torch.sub, "torch.sub"), (torch.mul, "torch.mul"), (torch.div, "torch.div"):
        for a, b in ((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (4,)), ((2, 3, 4), ()), ((1,), (1, 1)), ((2, 1, 4), (1, 3, 1)):
            backward(call(op, f, leaf(*a), leaf(*b)))
        backward(call(op, f, leaf(3, 4), leaf(4, dtype=torch.float64)))
        backward(call(op, f, leaf(3, 4, dtype=torch.complex64), leaf(4)))
        same = leaf(4)
        backward(call(op, f, same, same))
    backward(call("torch.addmm", torch.addmm, leaf(5), leaf(3, 4), leaf(4, 5)))
    backward(call("torch.where", torch.where, torch.ones(3, 1) > 0, leaf(4), leaf(3, 1)))


def of_others():
    """Ops that are made of others."""
    for dtype in torch.float32, torch.float64, torch.bfloat16:
        w, b = (lambda: leaf(5, 4, dtype=dtype)), (lambda: leaf(5, dtype=dtype))
        for shape in (3, 4), (2, 3, 4), (2, 2, 3, 4), (4,):
            x = leaf(*shape, dtype=dtype)
            backward(call("torch.nn.functional.linear", F.linear, x, w(), b(), own_node=False))
            x = leaf(*shape, dtype=dtype) * 2
            backward(call("torch.nn.functional.linear", F.linear, x, w(), own_node=False))
        x = torch.ones(3, 4, dtype=dtype)
        backward(call("torch.nn.functional.linear", F.linear, x, w(), b(), own_node=False))
        x = leaf(4, 4, dtype=dtype)
        backward(call("torch.nn.functional.linear", F.linear, x, x, own_node=False, apart=False))
        p, q = leaf(8, 4, dtype=dtype).clone().split(4)
        backward(call("torch.nn.functional.linear", F.linear, p, q, own_node=False, apart=False))
        backward(call("torch.nn.functional.dropout", F.dropout, leaf(3, 4, dtype=dtype), 0.5, True, own_node=False))
        backward(call("torch.matmul", torch.matmul, leaf(2, 3, 4, dtype=dtype), leaf(4, 5, dtype=dtype), own_node=False))
        x = leaf(3, 4, dtype=dtype)
        backward(call("torch.nn.functional.layer_norm", F.layer_norm, x, [4], leaf(4, dtype=dtype), leaf(4, dtype=dtype), own_node=False))
    backward(call("torch.cov", torch.cov, leaf(3, 5), own_node=False, apart=False))
    backward(call("torch.nn.functional.linear", F.linear, leaf(3, 4), leaf(5, 4), own_node=False))


torch.manual_seed(0)
torch.set_num_threads(1)
every_dtype()
arithmetic()
gradients()
broadcast()
of_others()
with open(os.path.join(folder, "calls.json"), "w") as f:
    json.dump(calls, f)
print(len(calls), "calls")
