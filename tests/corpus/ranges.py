"""More ops of the corpus, of what is hard to judge: results that differ by orders of magnitude, differences of nearly
equal numbers, long sums; inputs from 1e-4 to 1e3. The kernels are as those in kernels.py."""
import torch
import torch.nn.functional as F

from kernels import (Op, attention, backwards, by_chance, in_blocks, in_float32, in_pairs, matmul_terms, normal, sequential,
                     softmax_online, softmax_sums, split_k, sums_of, uniform, wide)

SIZES = (1e-4, 1e-2, 1.0, 30.0, 1e3)
RANGES = []


def op(name, function, make, correct=None, call=lambda *a: (a, {}), grad=(0,), sizes=SIZES, approximate=False):
    """`call`: the arguments as the capture has them. `approximate`: devices compute it to a few units in the last place."""
    def called(*args):
        given, kwargs = call(*args)
        return function(*given, **kwargs)

    correct = dict(correct or {})
    if approximate:
        correct["approximate"] = approximated(called)
    made = Op(name, called, make, correct, {}, grad, sizes)
    made.call = call
    RANGES.append(made)


def approximated(function):
    """To 1.5 units in the last place of float32, as the functions of accelerators are, rounded once."""
    def kernel(*args):
        first = next(a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point())
        r = function(*[a.double() if a.is_floating_point() else a for a in args])
        noise = torch.rand(r.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 2 - 1
        return (r * (1 + 3 * 2.0**-24 * noise)).float().to(first.dtype)
    return kernel


def near(gen, x, share=1e-3):
    """Numbers that are about those of x."""
    return x * (1 + share * torch.randn(x.shape, generator=gen))


def pairs(gen, size):
    x = normal(gen, 128, 256) * size + size
    return x, near(gen, x)


def last(x):
    return (x, -1), {}


def layer_norm_rows(x, w, b):
    m = x.mean(-1, keepdim=True)
    v = ((x - m) ** 2).mean(-1, keepdim=True)
    return (x - m) * torch.rsqrt(v + 1e-5) * w + b


def some_sums(terms_of, after=lambda s, *args: s):
    """Sums that are long, in orders that a kernel would have: no device adds up thousands one after the other."""
    orders = {"blocks": lambda t: in_blocks(t, max(16, t.shape[-1] // 128)), "pairs": in_pairs}
    return {name: in_float32(lambda *a, o=order: after(o(terms_of(*a)), *a)) for name, order in orders.items()}


# --- results that differ by orders of magnitude

op("torch.softmax", torch.softmax, lambda g, s: (normal(g, 64, 512) * s,),
   dict(sequential=in_float32(softmax_sums), online=in_float32(softmax_online)), last)
op("torch.softmax", torch.softmax, lambda g, s: (normal(g, 4, 2048) * s,), dict(online=in_float32(softmax_online)), last)
op("torch.nn.functional.log_softmax", F.log_softmax, lambda g, s: (normal(g, 64, 512) * s,),
   dict(shifted=in_float32(lambda x: (lambda y: y - torch.log(sequential(torch.exp(y)))[:, None])(x - x.amax(-1, keepdim=True)))), last)
op("torch.logsumexp", torch.logsumexp, lambda g, s: (normal(g, 256, 128) * s,),
   dict(sequential=in_float32(lambda x: x.amax(-1) + torch.log(sequential(torch.exp(x - x.amax(-1, keepdim=True)))))), last)
op("torch.exp", torch.exp, lambda g, s: ((normal(g, 128, 256) * s).clamp(-80, 9),), approximate=True)
op("torch.expm1", torch.expm1, lambda g, s: ((normal(g, 128, 256) * s).clamp(-80, 9),), approximate=True)
op("torch.log1p", torch.log1p, lambda g, s: (uniform(g, 128, 256) * s,), approximate=True)
op("torch.sigmoid", torch.sigmoid, lambda g, s: ((normal(g, 128, 256) * s).clamp(-80, 80),),
   dict(formula=in_float32(lambda x: 1 / (1 + torch.exp(-x)))), approximate=True)
op("torch.tanh", torch.tanh, lambda g, s: (normal(g, 128, 256) * s,), approximate=True)
op("torch.nn.functional.silu", F.silu, lambda g, s: ((normal(g, 128, 256) * s).clamp(-80, 80),),
   dict(product=in_float32(lambda x: x * torch.sigmoid(x))), approximate=True)
op("torch.nn.functional.gelu", F.gelu, lambda g, s: ((normal(g, 128, 256) * s).clamp(-12, 80),),
   dict(erf=in_float32(lambda x: 0.5 * x * (1 + torch.erf(x * 0.5**0.5)))), approximate=True)
op("torch.nn.functional.softplus", F.softplus, lambda g, s: ((normal(g, 128, 256) * s).clamp(-80, 80),), approximate=True)
op("torch.pow", torch.pow, lambda g, s: (uniform(g, 128, 256) * s + 0.01 * s, uniform(g, 128, 256) * 2 - 0.5), grad=(0, 1),
   approximate=True)
op("torch.rsqrt", torch.rsqrt, lambda g, s: (uniform(g, 128, 256) * s + 1e-3 * s,), dict(two=in_float32(lambda x: 1 / x.sqrt())),
   approximate=True)
op("torch.mul", torch.mul, lambda g, s: (normal(g, 128, 256) * s, torch.exp(normal(g, 128, 256) * 2)), grad=(0, 1))
op("torch.div", torch.div, lambda g, s: (normal(g, 128, 256) * s, torch.exp(normal(g, 128, 256) * 2)),
   dict(reciprocal=in_float32(lambda a, b: a * (1 / b))), grad=(0, 1))
op("torch.prod", torch.prod, lambda g, s: ((normal(g, 512, 24) * 0.3 + 1).abs() * min(max(s, 0.9), 1.3),), {}, last)

# --- differences of nearly equal numbers

op("torch.sub", torch.sub, pairs, grad=(0, 1))
op("torch.Tensor.sub", torch.Tensor.sub, pairs, dict(fused=lambda x, y: (x.double() - 0.3 * y.double()).to(x.dtype)),
   lambda x, y: ((x, y), {"alpha": 0.3}))
op("torch.add", torch.add, lambda g, s: (lambda x, y: (x, -y))(*pairs(g, s)), grad=(0, 1))
op("torch.addcmul", torch.addcmul, lambda g, s: (lambda b, c: (-near(g, b * c), b, c))(normal(g, 128, 256) * s, normal(g, 128, 256)),
   dict(fused=lambda a, b, c: (a.double() + b.double() * c.double()).to(a.dtype), unfused=in_float32(lambda a, b, c: a + b * c)))
op("torch.lerp", torch.lerp, lambda g, s: (lambda x, y: (x, -y, 0.5 + 0.01 * uniform(g, 128, 256)))(*pairs(g, s)),
   dict(formula=in_float32(lambda a, b, w: a + w * (b - a))))
op("torch.nn.functional.mse_loss", F.mse_loss, lambda g, s: pairs(g, min(s, 30)), {}, lambda x, y: ((x, y), {"reduction": "none"}))
op("torch.var", torch.var, lambda g, s: (normal(g, 256, 256) * s + 10 * s,),
   sums_of(lambda x: (x - x.mean(-1, keepdim=True)) ** 2, lambda t, x: t / (x.shape[-1] - 1)), last, sizes=SIZES[1:4])
op("torch.nn.functional.layer_norm", F.layer_norm, lambda g, s: (normal(g, 64, 512) * s + 3 * s, normal(g, 512) * 0.1 + 1, normal(g, 512) * 0.1),
   dict(two_pass=in_float32(layer_norm_rows)), lambda x, w, b: ((x, tuple(x.shape[-1:]), w, b), {}), grad=(0, 1, 2))
op("torch.nn.functional.group_norm", F.group_norm, lambda g, s: (normal(g, 8, 16, 64) * s + s, normal(g, 16) * 0.1 + 1, normal(g, 16) * 0.1),
   {}, lambda x, w, b: ((x, 4, w, b), {}), grad=(0, 1, 2))

# --- long sums

op("torch.sum", torch.sum, lambda g, s: (uniform(g, 32, 1024) * min(s, 50),), sums_of(lambda x: x), last)
op("torch.sum", torch.sum, lambda g, s: (normal(g, 64, 8192) * min(s, 50),), some_sums(lambda x: x), last)
op("torch.sum", torch.sum, lambda g, s: (uniform(g, 32768) * min(s, 3),), some_sums(lambda x: x))
op("torch.Tensor.mean", torch.Tensor.mean, lambda g, s: (uniform(g, 32, 4096) * s,), some_sums(lambda x: x, lambda t, x: t / x.shape[-1]), last)
op("torch.cumsum", torch.cumsum, lambda g, s: (normal(g, 32, 1024) * s,),
   dict(matrix=in_float32(lambda x: x @ torch.ones(x.shape[-1], x.shape[-1], dtype=x.dtype).triu())), last)
op("torch.linalg.vector_norm", torch.linalg.vector_norm, lambda g, s: (normal(g, 64, 1024) * min(max(s, 1e-2), 30),),
   sums_of(lambda x: x * x, lambda t, x: t.sqrt()), lambda x: ((x, 2, -1), {}))
op("torch.matmul", torch.matmul, lambda g, s: (normal(g, 96, 1024) * s, normal(g, 1024, 96) / 32),
   dict(split_k=in_float32(lambda a, b: split_k(a, b.t())), sequential=in_float32(lambda a, b: sequential(matmul_terms(a, b.t()))),
        backwards=in_float32(lambda a, b: backwards(matmul_terms(a, b.t()))),
        permuted=in_float32(lambda a, b: by_chance(matmul_terms(a, b.t())))), grad=(0, 1))
op("torch.nn.functional.linear", F.linear, lambda g, s: (uniform(g, 64, 512) * s, uniform(g, 64, 512) / 22, -normal(g, 64).abs() * s),
   dict(split_k=in_float32(lambda x, w, b: split_k(x, w) + b)), grad=(0, 1, 2))
op("torch.bmm", torch.bmm, lambda g, s: (normal(g, 8, 64, 96) * s, normal(g, 8, 96, 64)),
   sums_of(lambda a, b: a.unsqueeze(-2) * b.transpose(1, 2).unsqueeze(1)), grad=(0, 1))
op("torch.nn.functional.conv2d", F.conv2d, lambda g, s: (normal(g, 2, 32, 16, 16) * s, normal(g, 32, 32, 3, 3) / 17),
   dict(unfold=in_float32(lambda x, w: (w.reshape(32, -1) @ F.unfold(x, 3, padding=1)).reshape(2, 32, 16, 16))),
   lambda x, w: ((x, w), {"padding": 1}), grad=(0, 1))
op("torch.nn.functional.normalize", F.normalize, lambda g, s: (normal(g, 64, 512) * min(max(s, 1e-2), 30),),
   dict(rsqrt=in_float32(lambda x: x * torch.rsqrt((x * x).sum(1, keepdim=True)))), lambda x: ((x, 2.0, 1), {}))
op("torch.nn.functional.cosine_similarity", F.cosine_similarity, lambda g, s: (normal(g, 256, 128) * min(max(s, 1e-2), 30), normal(g, 256, 128)))
if hasattr(F, "scaled_dot_product_attention"):
    op("torch.nn.functional.scaled_dot_product_attention", F.scaled_dot_product_attention,
       lambda g, s: (normal(g, 2, 3, 64, 32) * min(s, 3), normal(g, 2, 3, 64, 32), normal(g, 2, 3, 64, 32)), dict(plain=attention()),
       lambda q, k, v: ((q, k, v), {"is_causal": True}), grad=(0, 1, 2))


# --- the CPU's own kernels, run otherwise


def transposed(x):
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x


def gapped(x):
    new = torch.empty(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)[..., ::2] if x.dim() else x.clone()
    return new.copy_(x)


def on_threads(f, args):
    torch.set_num_threads(2)
    try:
        return f(*args)
    finally:
        torch.set_num_threads(1)


def without_mkldnn(f, args):
    with torch.backends.mkldnn.flags(enabled=False):
        return f(*args)


VARIANTS = {"transposed": lambda f, args: f(*[transposed(a) for a in args]), "gapped": lambda f, args: f(*[gapped(a) for a in args]),
            "two threads": on_threads, "no mkldnn": without_mkldnn}
__all__ = ["RANGES", "VARIANTS", "wide"]
