#!/usr/bin/env python3
"""Calls that cannot be changed or judged, and what they give: left_alone.py [scripted]. Each is of another function, so
that the summary says which was left alone for what; "scripted": up to the scripted function. The lazy device stands
for one that is capturing a graph."""

import sys
import types

import torch
import torch._lazy
import torch._lazy.ts_backend
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F


class Own(torch.Tensor):
    asked = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.asked += func is torch.add
        return super().__torch_function__(func, types, args, kwargs or {})


def show(what, x):
    print(what, x.cpu().tolist() if isinstance(x, torch.Tensor) else x)


x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
show("subclass", torch.add(x.as_subclass(Own), 1).as_subclass(torch.Tensor))
print("asked", Own.asked)
show("sparse", torch.mm(x.to_sparse(), x))
show("quantized", torch.nn.functional.relu(torch.quantize_per_tensor(x, 1.0, 0, torch.quint8)).int_repr())
print("no numbers", tuple(torch.sub(x.to("meta"), 1).shape))
zero = torch._efficientzerotensor((2, 2))
show("zeros without memory", torch.hypot(zero, zero))
weight = torch.ones(2, requires_grad=True)
torch.sgn(weight).sum().backward()
show("a gradient without memory", weight.grad.clone())
freed = torch.ones(3)[1:]
(freed.untyped_storage() if hasattr(freed, "untyped_storage") else freed._storage()).resize_(0)
show("freed", torch.zeros_like(freed))
show("view", x.reshape(4))
show("asks for itself again", torch.meshgrid(x[0], x[1], indexing="ij")[1])
show("asked whether it is a view", x.t()._is_view())
show("factory", torch.ones_like(x))
rows = torch.nn.Embedding.from_pretrained(torch.ones(3, 2), freeze=False, sparse=True)
rows(torch.tensor([1, 2])).sum().backward()
show("a sparse gradient", rows.weight.grad.to_dense())
torch.embedding(torch.ones(3, 2, requires_grad=True), torch.tensor([1]), -1, True, False)  # scaled, and not sparse
for recurrent in torch.nn.LSTM(2, 2, 2, dropout=0.5), torch.nn.GRU(2, 2):
    print("recurrent", tuple(recurrent(torch.zeros(1, 1, 2))[0].shape))
torch.erf(x.clone().requires_grad_()).type_as(x).sum().backward()
if hasattr(torch, "vmap"):
    show("vmap", torch.vmap(torch.mul)(x, x))
    show("vjp", torch.func.vjp(lambda a: torch.mul(a, a), x)[1](x)[0])
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    torch.distributed.all_reduce(x)
    torch.distributed.destroy_process_group()


show("operators of torch.ops", torch.ops.aten.hardtanh.default(x))
show("by name", torch.ops.aten.ceil(x))


@torch.jit.script
def scripted(a):
    return torch.tanh(a) * 2


show("scripted", scripted(x))
if "scripted" in sys.argv:
    sys.exit()
with forward_ad.dual_level():
    dual = torch.sin(forward_ad.make_dual(x, torch._efficientzerotensor((2, 2))))
    show("a tangent without memory", forward_ad.unpack_dual(dual).tangent.clone())
show("traced", torch.jit.trace(lambda a: torch.sigmoid(a), x, check_trace=False)(x))

torch._lazy.ts_backend.init()
lazy = x.to("lazy")
torch.lazy = types.SimpleNamespace(is_current_stream_capturing=lambda: True)
capturing = F.softmax(lazy, 1)
del torch.lazy
show("captured as a graph", capturing)

if hasattr(torch, "compile") and sys.version_info < (3, 14):
    show("compiled", torch.compile(lambda a: torch.exp(a) + 1, backend="aot_eager", fullgraph=True)(x))
    if hasattr(torch.ops.higher_order, "cond"):
        show("cond", torch.ops.higher_order.cond(True, lambda a: a + 1, lambda a: a - 1, (x,)))

    class Breaks:
        def __enter__(self):
            torch._dynamo.graph_break()

        def __exit__(self, *_):
            pass

    @torch.compile(backend="aot_eager")
    def as_it_is(a):
        with Breaks():
            return torch.trunc(a)

    show("cannot be compiled", as_it_is(x))
