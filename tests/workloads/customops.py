"""Operators of torch.library with arguments of many types, all called through torch.ops."""

import torch

library = torch.library.Library("ditrace_test", "DEF")


def define(schema, function, key="CompositeExplicitAutograd"):
    library.define(schema)
    library.impl(schema[: schema.index("(")], function, key)


def _fail(x):
    raise ValueError("a custom op that throws")


def _packed(x):
    if not x.is_contiguous():
        raise ValueError("a custom op that takes one layout")
    return x * 2


define("numbers(int a, float b, bool c, Scalar d, *, int? e=None, float? f=None, bool? g=None) -> int", lambda a, *r, **k: a)
define("lists(int[] a, float[] b, bool[] c, str[] d, Tensor[] e, Tensor?[] f, int[]? g=None) -> Tensor[]", lambda *a: [t + 1 for t in a[4]])
define("text(str a, str b='standard', str? c=None) -> str", lambda a, b="", c=None: a)
define("kinds(ScalarType a, Device b, Layout c, MemoryFormat d, ScalarType? e=None, Device? f=None) -> bool", lambda *a, **k: True)
define("tensors(Tensor a, Tensor? b, Tensor? c=None) -> (Tensor, Tensor)", lambda a, b, c=None: (a * 2, a.sum()))
define("inplace(Tensor(a!) a, float b) -> Tensor(a!)", lambda a, b: a.add_(b))
define("many(Tensor a, int b, int c, int d, int e, int f, int g, int h, float i, float j, str k) -> (Tensor, int, float, bool, str)",
       lambda a, b, *r: (a.clone(), b, r[6], True, r[8]))
define("nothing() -> ()", lambda: None)
define("none(Tensor? a=None) -> ()", lambda a=None: None)
define("fail(Tensor a) -> Tensor", _fail)
define("packed(Tensor a) -> Tensor", _packed)
ops = torch.ops.ditrace_test


def text(*strings):
    return ops.text(*strings)


def fail(x):
    return ops.fail(x)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


class SplitSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, scale):
        ctx.scale = scale
        return (a + b) * scale, (a - b).detach()

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.scale, grad * ctx.scale, None


def functions():
    a, b = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
    Cube.apply(a).sum().backward()
    total, _ = SplitSum.apply(Cube.apply(a), b, 0.5)
    total.sum().backward()
    with torch.no_grad():
        Cube.apply(a)


def modern():
    """torch.library.custom_op, of the versions that have it."""
    if not hasattr(torch.library, "custom_op"):
        return

    @torch.library.custom_op("ditrace_modern::scale", mutates_args=())
    def scale(x: torch.Tensor, by: float, times: int = 1) -> torch.Tensor:
        return x * (by * times)

    scale.register_autograd(lambda ctx, grad: (grad * ctx.by, None, None), setup_context=_remember)
    x = torch.ones(2, requires_grad=True)
    scale(torch.ones(3), 1.5), scale(x, 2.0, times=3).sum().backward()
    torch.ops.ditrace_modern.scale(torch.ones(2), -0.5, 2)


def _remember(ctx, inputs, output):
    ctx.by = inputs[1] * inputs[2]


def section():
    x, y = torch.arange(4.0), torch.ones(2, 2)
    ops.numbers(3, 2.5, True, 7)
    ops.numbers(-(2**63), -0.0, False, 1.25, e=2**63 - 1, f=1e-3, g=True)
    ops.numbers(0, float("inf"), False, True), ops.numbers(1, float("nan"), True, 2 - 3j, f=-1.5)
    ops.lists([1, -2, 2**40], [0.5, 1.0], [True, False], ["a", "", "long " * 8], [x, y], [None, x])
    ops.lists([], [], [], [], [], [], [5])
    ops.text("first"), ops.text("a", "b"), ops.text("", "", "given")
    ops.kinds(torch.float16, torch.device("cpu"), torch.strided, torch.channels_last)
    ops.kinds(torch.bool, torch.device("meta"), torch.sparse_coo, torch.preserve_format, torch.int64, torch.device("cpu", 0))
    ops.tensors(x, None), ops.tensors(y[:, 1], x, c=y.t()), ops.inplace(x, 2.5)
    ops.many(y, 1, 2, 3, 4, 5, 6, 7, 8.5, 9.5, "ten")
    ops.nothing(), ops.none(), ops.none(x)
    torch.ops.aten.add(x, x), torch.ops.aten.add.Tensor(x, y[0, 0], alpha=2)
    torch.ops.aten.sum.dim_IntList(y, [0], True)
    torch.ops.aten.mul.Scalar(x, 3)
    torch.ops.aten.full([2, 2], 4.5, dtype=torch.float64, pin_memory=False), torch.ops.aten.relu_(x)
    torch.ops.aten.split.Tensor(x, 3), torch.ops.aten.max.dim(y, 1)
    torch.ops.aten.convolution(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    torch.ops.aten.add.out(x, x, out=torch.empty(4))
    torch.ops.aten._local_scalar_dense(torch.tensor(3))
    torch.ops.aten.native_layer_norm(y, [2], None, None, 1e-5)
    functions()
    modern()
