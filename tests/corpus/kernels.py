"""The ops of the corpus: how their inputs are made, other correct kernels for them, and faults of their own.

A kernel takes the arguments of the op, in the dtype that it is to compute in, and gives the result in
that of the arguments. Kernels that work in float32 stand for those of devices, which add up half types so."""

import math

import torch
import torch.nn.functional as F


def wide(x):
    """The dtype in which a device computes."""
    return x.float() if isinstance(x, torch.Tensor) and x.dtype in (torch.float16, torch.bfloat16) else x


def in_float32(f):
    """The same formula in float32 (that of the arguments, if they are wider), rounded once."""
    def kernel(*args):
        first = next(a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point())
        return f(*[wide(a) for a in args]).to(first.dtype)
    return kernel


# --- sums in other orders

def sequential(terms):
    """Sum over the last dimension, one after the other."""
    total = torch.zeros(terms.shape[:-1], dtype=terms.dtype)
    for i in range(terms.shape[-1]):
        total = total + terms[..., i]
    return total


def backwards(terms):
    return sequential(terms.flip(-1))


def in_blocks(terms, n=16):
    """Each block one after the other, then the blocks."""
    size = -(-terms.shape[-1] // n)
    return sequential(torch.stack([sequential(b) for b in terms.split(size, -1)], -1))


def in_pairs(terms):
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = F.pad(terms, (0, 1))
        terms = terms[..., ::2] + terms[..., 1::2]
    return terms[..., 0]


def by_chance(terms):
    order = torch.randperm(terms.shape[-1], generator=torch.Generator().manual_seed(7))
    return sequential(terms[..., order])


ORDERS = dict(sequential=sequential, backwards=backwards, blocks=in_blocks, pairs=in_pairs, permuted=by_chance)


def matmul_terms(x, w):
    return x.unsqueeze(-2) * w


def split_k(x, w, n=4):
    """x [..., K] times w [N, K] in slices of K."""
    size = -(-x.shape[-1] // n)
    return sum(a @ b.t() for a, b in zip(x.split(size, -1), w.split(size, -1)))


def sums_of(terms_of, after=lambda s, *args: s):
    return {name: in_float32(lambda *a, o=order: after(o(terms_of(*a)), *a)) for name, order in ORDERS.items()}


# --- inputs

def normal(gen, *shape):
    return torch.randn(shape, generator=gen)


def uniform(gen, *shape):
    return torch.rand(shape, generator=gen)


class Op:
    """`make(gen, size)` gives the arguments in float32, their scale `size`; `function` is what `name` calls;
    `correct` other kernels, `faults` wrong ones; `grad`: which arguments have gradients."""

    def __init__(self, name, function, make, correct=None, faults=None, grad=(0,), sizes=(1e-2, 1.0, 10.0), rows=True):
        self.name, self.function, self.make = name, function, make
        self.correct, self.faults, self.grad, self.sizes, self.rows = correct or {}, faults or {}, grad, sizes, rows


OPS = []


def op(*args, **kwargs):
    OPS.append(Op(*args, **kwargs))


# --- elementwise

op("torch.add", torch.add, lambda g, s: (normal(g, 64, 96) * s, normal(g, 96) * s), grad=(0, 1))
op("torch.Tensor.sub", torch.sub, lambda g, s: (normal(g, 64, 96) * s, normal(g, 64, 96) * s), grad=(0, 1))
op("torch.mul", torch.mul, lambda g, s: (normal(g, 64, 96) * s, normal(g, 64, 96)), grad=(0, 1))
op("torch.div", torch.div, lambda g, s: (normal(g, 64, 96) * s, normal(g, 64, 96).abs() + 0.5),
   dict(reciprocal=in_float32(lambda a, b: a * (1 / b))), grad=(0, 1))
op("torch.addcmul", torch.addcmul, lambda g, s: tuple(normal(g, 64, 96) * s for _ in range(3)),
   dict(fused=lambda a, b, c: (a.double() + b.double() * c.double()).to(a.dtype)), grad=(0, 1, 2), sizes=(0.1, 1.0, 4.0))
op("torch.exp", torch.exp, lambda g, s: (normal(g, 64, 96) * s,), dict(exp2=in_float32(lambda x: torch.exp2(x * math.log2(math.e)))),
   sizes=(1e-2, 1.0, 2.0))
op("torch.log", torch.log, lambda g, s: (uniform(g, 64, 96) * s + 0.01 * s,), sizes=(0.1, 1.0, 100.0))
op("torch.rsqrt", torch.rsqrt, lambda g, s: (uniform(g, 64, 96) * s + 0.1 * s,), dict(two=in_float32(lambda x: 1 / x.sqrt())),
   sizes=(0.1, 1.0, 100.0))
op("torch.tanh", torch.tanh, lambda g, s: (normal(g, 64, 96) * s,),
   dict(exponentials=in_float32(lambda x: torch.sign(x) * -torch.expm1(-2 * x.abs()) / (1 + torch.exp(-2 * x.abs())))), sizes=(0.1, 1.0, 4.0))
op("torch.sigmoid", torch.sigmoid, lambda g, s: (normal(g, 64, 96) * s,), dict(formula=in_float32(lambda x: 1 / (1 + torch.exp(-x)))),
   sizes=(0.1, 1.0, 4.0))
op("torch.nn.functional.silu", F.silu, lambda g, s: (normal(g, 64, 96) * s,),
   dict(product=in_float32(lambda x: x * torch.sigmoid(x)), quotient=in_float32(lambda x: x / (1 + torch.exp(-x)))), sizes=(0.1, 1.0, 4.0))
op("torch.nn.functional.gelu", F.gelu, lambda g, s: (normal(g, 64, 96) * s,),
   dict(erfc=in_float32(lambda x: 0.5 * x * torch.erfc(-x * math.sqrt(0.5))), erf=in_float32(lambda x: 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5))))),
   dict(tanh_form=in_float32(lambda x: F.gelu(x, approximate="tanh"))), sizes=(0.5, 1.0, 4.0))

# --- sums

op("torch.sum", lambda x: torch.sum(x, -1), lambda g, s: (normal(g, 48, 700) * s,), sums_of(lambda x: x),
   dict(short=in_float32(lambda x: x[..., :-1].sum(-1))), rows=False)
op("torch.Tensor.mean", lambda x: torch.mean(x, -1), lambda g, s: ((uniform(g, 200, 512) + 0.1) * s,),
   sums_of(lambda x: x, lambda t, x: t / x.shape[-1]), dict(off_by_one=in_float32(lambda x: x.sum(-1) / (x.shape[-1] - 1))), rows=False)
op("torch.var", lambda x: torch.var(x, -1), lambda g, s: (normal(g, 200, 256) * s + s,),
   sums_of(lambda x: (x - x.mean(-1, keepdim=True)) ** 2, lambda t, x: t / (x.shape[-1] - 1)),
   dict(biased=in_float32(lambda x: torch.var(x, -1, unbiased=False))), rows=False)
op("torch.linalg.vector_norm", lambda x: torch.linalg.vector_norm(x, 2, -1), lambda g, s: (normal(g, 200, 256) * s,),
   sums_of(lambda x: x * x, lambda t, x: t.sqrt()), dict(no_root=in_float32(lambda x: (x * x).sum(-1))), rows=False, sizes=(0.1, 1.0, 3.0))
op("torch.cumsum", lambda x: torch.cumsum(x, -1), lambda g, s: (normal(g, 40, 200) * s,),
   dict(matrix=in_float32(lambda x: x @ torch.ones(x.shape[-1], x.shape[-1], dtype=x.dtype).triu())),
   dict(exclusive=in_float32(lambda x: torch.cumsum(x, -1) - x)))

# --- products of matrices

op("torch.nn.functional.linear", F.linear, lambda g, s: (normal(g, 24, 512) * s, normal(g, 40, 512) / 22, normal(g, 40) * s),
   {**sums_of(lambda x, w, b: matmul_terms(x, w), lambda t, x, w, b: t + b),
    "split_k": in_float32(lambda x, w, b: split_k(x, w) + b)},
   dict(no_bias=in_float32(lambda x, w, b: x @ w.t()), short=in_float32(lambda x, w, b: x[:, :-1] @ w[:, :-1].t() + b)), grad=(0, 1, 2))
op("torch.matmul", torch.matmul, lambda g, s: (uniform(g, 32, 300) * s, uniform(g, 300, 24)),
   {**sums_of(lambda a, b: matmul_terms(a, b.t())), "split_k": in_float32(lambda a, b: split_k(a, b.t()))},
   dict(short=in_float32(lambda a, b: a[:, :-1] @ b[:-1])), grad=(0, 1))
op("torch.bmm", torch.bmm, lambda g, s: (normal(g, 6, 20, 64) * s, normal(g, 6, 64, 24)),
   sums_of(lambda a, b: a.unsqueeze(-2) * b.transpose(1, 2).unsqueeze(1)),
   dict(wrong_batch=lambda a, b: torch.bmm(a.float(), b.float().roll(1, 0)).to(a.dtype)), grad=(0, 1))
op("torch.nn.functional.conv2d", lambda x, w: F.conv2d(x, w, padding=1), lambda g, s: (normal(g, 2, 16, 14, 14) * s, normal(g, 12, 16, 3, 3) / 12),
   dict(unfold=in_float32(lambda x, w: (w.reshape(12, -1) @ F.unfold(x, 3, padding=1)).reshape(2, 12, 14, 14)),
        per_tap=in_float32(lambda x, w: sum(torch.einsum("nchw,oc->nohw", F.pad(x, (1, 1, 1, 1))[:, :, i:i + 14, j:j + 14], w[:, :, i, j])
                                            for i in range(3) for j in range(3)))),
   dict(flipped=in_float32(lambda x, w: F.conv2d(x, w.flip(-1), padding=1))), grad=(0, 1))

# --- norms and softmax


def layer_norm(eps=1e-5, ddof=0):
    def f(x, w, b):
        m = x.mean(-1, keepdim=True)
        d = x - m
        v = (d * d).sum(-1, keepdim=True) / (x.shape[-1] - ddof)
        return d * torch.rsqrt(v + eps) * w + b
    return in_float32(f)


def layer_norm_one_pass(x, w, b):
    m = x.mean(-1, keepdim=True)
    v = ((x * x).mean(-1, keepdim=True) - m * m).clamp_min(0)
    return (x - m) / torch.sqrt(v + 1e-5) * w + b


op("torch.nn.functional.layer_norm", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
   lambda g, s: (normal(g, 48, 256) * s, normal(g, 256) * 0.1 + 1, normal(g, 256) * 0.1),
   dict(two_pass=layer_norm(), one_pass=in_float32(layer_norm_one_pass)),
   dict(epsilon=layer_norm(1e-3), ddof=layer_norm(1e-5, 1), no_weight=in_float32(lambda x, w, b: F.layer_norm(x, x.shape[-1:]) + b)),
   grad=(0, 1, 2), sizes=(0.1, 1.0, 10.0))
op("torch.nn.functional.group_norm", lambda x, w, b: F.group_norm(x, 4, w, b),
   lambda g, s: (normal(g, 6, 16, 40) * s, normal(g, 16) * 0.1 + 1, normal(g, 16) * 0.1),
   dict(float32=in_float32(lambda x, w, b: F.group_norm(x, 4, w, b))),
   dict(epsilon=in_float32(lambda x, w, b: F.group_norm(x, 4, w, b, 1e-2)), groups=in_float32(lambda x, w, b: F.group_norm(x, 8, w, b))),
   grad=(0, 1, 2), sizes=(0.1, 1.0, 10.0))


def softmax_sums(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / sequential(e).unsqueeze(-1)


def softmax_online(x):
    """In two halves, each with a maximum of its own."""
    parts = [(p.amax(-1, keepdim=True), p) for p in x.chunk(2, -1)]
    top = torch.maximum(parts[0][0], parts[1][0])
    total = sum(torch.exp(p - m).sum(-1, keepdim=True) * torch.exp(m - top) for m, p in parts)
    return torch.exp(x - top) / total


op("torch.softmax", lambda x: torch.softmax(x, -1), lambda g, s: (normal(g, 40, 300) * s,),
   dict(sequential=in_float32(softmax_sums), online=in_float32(softmax_online), from_log=in_float32(lambda x: torch.exp(x - torch.logsumexp(x, -1, keepdim=True)))),
   dict(mask=in_float32(lambda x: F.pad(torch.softmax(x[..., :-1], -1), (0, 1))), scale=in_float32(lambda x: torch.softmax(x * 1.02, -1))), sizes=(0.1, 1.0, 5.0))
op("torch.nn.functional.log_softmax", lambda x: F.log_softmax(x, -1), lambda g, s: (normal(g, 40, 300) * s,),
   dict(logsumexp=in_float32(lambda x: x - torch.logsumexp(x, -1, keepdim=True))), dict(base2=in_float32(lambda x: F.log_softmax(x, -1) * math.log2(math.e))),
   sizes=(0.1, 1.0, 5.0))
op("torch.logsumexp", lambda x: torch.logsumexp(x, -1), lambda g, s: (normal(g, 200, 200) * s,),
   dict(sequential=in_float32(lambda x: x.amax(-1) + torch.log(sequential(torch.exp(x - x.amax(-1, keepdim=True)))))),
   dict(short=in_float32(lambda x: torch.logsumexp(x[..., 1:], -1))), rows=False, sizes=(0.1, 1.0, 5.0))
op("torch.nn.functional.cross_entropy", lambda x, t: F.cross_entropy(x, t, reduction="none"),
   lambda g, s: (normal(g, 200, 100) * s, torch.randint(0, 100, (200,), generator=g)),
   dict(log_softmax=in_float32(lambda x, t: -F.log_softmax(x, -1).gather(1, t[:, None])[:, 0]),
        logsumexp=in_float32(lambda x, t: torch.logsumexp(x, -1) - x.gather(1, t[:, None])[:, 0])),
   dict(target=in_float32(lambda x, t: F.cross_entropy(x, (t + 1) % 100, reduction="none")), smoothing=in_float32(
       lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.05))), rows=False, sizes=(0.5, 1.0, 5.0))


def attention(scale=None, shift=0, causal=True):
    def f(q, k, v):
        s = q @ k.transpose(-2, -1) * (scale or 1 / math.sqrt(q.shape[-1]))
        if causal:
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1 + shift), float("-inf"))
        return torch.nan_to_num(torch.softmax(s, -1)) @ v
    return in_float32(f)


if hasattr(F, "scaled_dot_product_attention"):
    op("torch.nn.functional.scaled_dot_product_attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
       lambda g, s: (normal(g, 2, 3, 40, 32) * s, normal(g, 2, 3, 40, 32), normal(g, 2, 3, 40, 32)),
       dict(plain=attention()), dict(mask=attention(shift=1), scale=attention(scale=1 / 32), no_mask=attention(causal=False)), grad=(0, 1, 2),
       sizes=(0.3, 1.0, 3.0))

# --- others

op("torch.nn.functional.mse_loss", lambda x, y: F.mse_loss(x, y, reduction="none"), lambda g, s: (normal(g, 64, 96) * s, normal(g, 64, 96) * s), grad=(0,),
   sizes=(0.1, 1.0, 4.0))
op("torch.nn.functional.avg_pool2d", lambda x: F.avg_pool2d(x, 2), lambda g, s: (normal(g, 2, 8, 16, 16) * s,),
   dict(reshaped=in_float32(lambda x: x.reshape(2, 8, 8, 2, 8, 2).mean((3, 5)))), dict(sum=in_float32(lambda x: F.avg_pool2d(x, 2) * 4)))
op("torch.nn.functional.embedding", F.embedding, lambda g, s: (torch.randint(0, 50, (30,), generator=g), normal(g, 50, 40) * s),
   {}, dict(next_row=lambda i, w: F.embedding((i + 1) % 50, w)), grad=(1,))
op("torch.Tensor.transpose", lambda x: x.transpose(0, 1), lambda g, s: (normal(g, 40, 60) * s,), {},
   dict(reversed=lambda x: x.transpose(0, 1).flip(0)))
op("torch.nn.functional.normalize", lambda x: F.normalize(x, 2.0, 1), lambda g, s: (normal(g, 40, 256) * s,),
   dict(rsqrt=in_float32(lambda x: x * torch.rsqrt((x * x).sum(1, keepdim=True)))), dict(not_squared=in_float32(lambda x: x / x.abs().sum(1, keepdim=True))),
   sizes=(0.1, 1.0, 3.0))

# How the capture calls each op; where it is not just the arguments.
CALLS = {
    "torch.sum": lambda x: ((x, -1), {}), "torch.Tensor.mean": lambda x: ((x, -1), {}), "torch.var": lambda x: ((x, -1), {}),
    "torch.linalg.vector_norm": lambda x: ((x, 2, -1), {}), "torch.cumsum": lambda x: ((x, -1), {}),
    "torch.nn.functional.conv2d": lambda x, w: ((x, w), {"padding": 1}),
    "torch.nn.functional.layer_norm": lambda x, w, b: ((x, tuple(x.shape[-1:]), w, b), {}),
    "torch.nn.functional.group_norm": lambda x, w, b: ((x, 4, w, b), {}),
    "torch.softmax": lambda x: ((x, -1), {}), "torch.nn.functional.log_softmax": lambda x: ((x, -1), {}),
    "torch.logsumexp": lambda x: ((x, -1), {}),
    "torch.nn.functional.cross_entropy": lambda x, t: ((x, t), {"reduction": "none"}),
    "torch.nn.functional.scaled_dot_product_attention": lambda q, k, v: ((q, k, v), {"is_causal": True}),
    "torch.nn.functional.mse_loss": lambda x, y: ((x, y), {"reduction": "none"}),
    "torch.nn.functional.avg_pool2d": lambda x: ((x, 2), {}), "torch.Tensor.transpose": lambda x: ((x, 0, 1), {}),
    "torch.nn.functional.normalize": lambda x: ((x, 2.0, 1), {}),
}
