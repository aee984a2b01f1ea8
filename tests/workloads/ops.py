#!/usr/bin/env python3
"""A few hundred different operators, called with known arguments of every kind.

    ops.py [--log FILE] [--only SECTION,...]

With --log, PyTorch's own log of the run is written to FILE.
"""

import argparse
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

import customops
import modes
import observer
from tags import tag

NEW = hasattr(torch, "uint64")
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
nan, inf = math.nan, math.inf


def named(*names):
    return [getattr(torch, n) for n in names if hasattr(torch, n)]


FLOATS = named("float16", "bfloat16", "float32", "float64")
COMPLEX = named("complex32", "complex64", "complex128")
INTS = named("uint8", "int8", "int16", "int32", "int64")
WIDE = named("uint16", "uint32", "uint64")
SMALL_FLOATS = named(
    "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu"
    "float4_e2m1fn_x2"
)
BITS = named("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16")
SUBBYTE = named(*(f"{sign}int{n}" for sign in ("", "u") for n in range(1, 8)))


def dtypes():
    for d in FLOATS + INTS + WIDE + COMPLEX + SMALL_FLOATS + BITS + SUBBYTE + [torch.bool]:
        x = torch.empty((2, 3), dtype=d)
        tag(x, dtype=d)
        x.view(3, 2).t()
        torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.empty_strided((2, 2), (1, 2), dtype=d)
    for d in FLOATS + INTS:
        torch.full((2,), 3, dtype=d).add(1).mul(2)
    for d in FLOATS[2:] + COMPLEX[1:]:
        torch.ones(4, dtype=d).exp().to(torch.complex64)
    for d in FLOATS + INTS + WIDE + [torch.bool]:
        torch.zeros(3, dtype=torch.float32).to(d).to(torch.float64, copy=True)
    torch.promote_types(torch.int8, torch.float16)
    torch.ones(2, dtype=torch.int32) + torch.ones(2, dtype=torch.float64)


def dimensions():
    for n in range(9):
        shape = tuple(range(2, 2 + min(n, 4))) + (1,) * (n - 4)
        x = torch.zeros(shape).add(0.5)
        x.flip(tuple(range(n))) if n else x.neg()
        x.permute(tuple(reversed(range(n)))).contiguous()
        x.sum() if n % 2 else x.sum(tuple(range(n)), keepdim=True)
        x.unsqueeze(0).expand((3,) + shape).reshape(-1)
    for shape in ((0,), (3, 0), (0, 0, 2), (1, 0, 1, 0)):
        x = torch.empty(shape)
        x.sum(), x.t() if x.dim() < 3 else x.transpose(0, 1), x.clone(), x.reshape(-1)
        torch.cat([x, x], -1)
    torch.zeros(()).item()
    torch.tensor(7).item(), torch.tensor(True).item(), torch.tensor(2.5, dtype=torch.float64).item()
    torch.zeros((1,) * 20).squeeze()


def views():
    x = torch.arange(120.0).reshape(4, 5, 6)
    for v in (x[1:], x[:, ::2], x[..., 3], x.transpose(0, 2), x[1:3, 2:, 1::3], x.permute(2, 0, 1)[2:]):
        v.add(1), v.relu(), v.sum(-1), v.contiguous(), v.clone(memory_format=torch.preserve_format)
    x.as_strided((3, 2), (7, 2), 11).mul(x.as_strided((3, 2), (0, 1), 100))
    x.select(1, -1).narrow(0, 1, 2).fill_(3), x.diagonal(1, 0, 2), x.unfold(1, 2, 2).sum()
    x.view(torch.int32).add(1), x.view(20, 6).t().t_(), x.expand(2, 4, 5, 6).sum(0)
    torch.view_as_complex(torch.zeros(3, 2)).real
    torch.view_as_real(torch.zeros(3, dtype=torch.complex64)).neg()
    torch.zeros(3, dtype=torch.complex64).conj().add(1)
    torch.zeros(2, dtype=torch.complex64).imag.sum()
    image = torch.zeros(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    image.add(1), image.to(memory_format=torch.contiguous_format)
    image.clone(memory_format=torch.channels_last)
    torch.zeros(1, 2, 3, 2, 2).to(memory_format=torch.channels_last_3d).add(1)
    y = torch.zeros(3, 4)
    y.swapaxes(0, 1), y.movedim(0, 1), y.ravel(), y.flatten(), y.unflatten(1, (2, 2)), y.squeeze_()
    y.unsqueeze_(1)
    y.resize_(2, 2), y.set_(torch.ones(5)), y.data.add_(1)
    x.chunk(3, 2), x.split(2, 1), x.split([1, 3], 0), x.tensor_split(3), x.unbind(1), x.hsplit(5)
    torch.broadcast_tensors(torch.zeros(3, 1), torch.zeros(4)), torch.atleast_2d(torch.zeros(3))


def scalars():
    x = torch.ones(4)
    for v in (0, 1, -1, 2**31, -(2**31) - 1, INT_MAX, INT_MIN):
        torch.full((2,), v, dtype=torch.int64), torch.full((1,), v)
    for v in (0.0, -0.0, 1.5, -2.25, 1e-3, 12345.678, 1e20, -3e38, inf, -inf, nan):
        torch.full((2,), v), x.clamp(max=v), torch.full((2,), v * 10, dtype=torch.float64)
    for v in (True, False):
        torch.full((2,), v), torch.full((2,), v, dtype=torch.int8), x.to(torch.bool).fill_(v)
    for v in (1 + 2j, complex(-0.5, inf), 3j):
        torch.full((2,), v), torch.zeros(2, dtype=torch.complex64).fill_(v)
    # To tell an observer of a number above int64's makes older versions throw.
    if NEW and torch.__version__ >= "2.9":
        for v in (2**64 - 1, 2**63, 5):
            torch.full((2,), v, dtype=torch.uint64)
    torch.add(x, x, alpha=3), torch.add(x, x, alpha=-0.5), torch.sub(x, x, alpha=2)
    torch.rsub(x, 3, alpha=2)
    torch.addmm(torch.zeros(2, 2), torch.ones(2, 3), torch.ones(3, 2), beta=0.25, alpha=-4)
    torch.addcmul(x, x, x, value=7), torch.addcdiv(x, x, x, value=-1.5), torch.lerp(x, x, 0.3)
    x.pow(3), x.pow(-0.5), torch.pow(2, x), x.clamp(-1, 2), x.clamp_min(0.5), x.clamp(min=2)
    x.clamp(max=True)
    x.eq(1), x.ne(2.5), x.gt(-1), x.le(1e9), x.remainder(3), x.fmod(-2.5), x.mul(True), x.div(4)
    torch.arange(3), torch.arange(1, 7, 2), torch.arange(0.5, 2.0, 0.25), torch.linspace(-1, 1, 5)
    torch.logspace(0, 2, 4, 10.0), torch.eye(3), torch.eye(2, 4), torch.scalar_tensor(5.5)
    torch.range(1, 3)
    F.threshold(x, 0.1, 20), F.leaky_relu(x, 0.02), F.elu(x, 1.5), F.celu(x, 2.0)
    F.hardtanh(x, -2, 3)
    F.softplus(x, 2, 30), F.hardshrink(x, 0.3), F.softshrink(x, 0.2)
    torch.nan_to_num(x, 1.0, None, -3.0)
    torch.tensor([INT_MIN, INT_MAX]).bitwise_and(7), torch.ones(2, dtype=torch.int32) << 3
    torch.where(x > 0, 1.0, 2.0), torch.where(x > 0, x, 3), x.masked_fill(x > 0, -7)
    x.sum().is_nonzero(), torch.allclose(x, x, 1e-3, 1e-5, True), torch.equal(x, x)
    torch.is_same_size(x, x)


def strings():
    x, y = torch.ones(4) * 5, torch.ones(4) * 3
    for mode in (None, "trunc", "floor"):
        torch.div(x, y, rounding_mode=mode), torch.div(x, 2, rounding_mode=mode)
    torch.meshgrid(torch.zeros(2), torch.zeros(3), indexing="ij")
    torch.meshgrid(x, y, indexing="xy")
    torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 4))
    torch.einsum("ii", torch.ones(3, 3))
    torch.bucketize(torch.tensor([1.5]), torch.tensor([1.0, 2.0]), right=True)
    torch.searchsorted(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0]), side="right")
    torch.zeros(5).scatter_reduce(0, torch.tensor([0, 1, 1]), torch.ones(3), "sum", include_self=False)
    torch.zeros(5).scatter(0, torch.tensor([1]), 2.0, reduce="add")
    torch.fft.fft(x, norm="ortho"), torch.fft.rfft2(torch.ones(4, 4))
    torch.linalg.norm(torch.ones(2, 2), "fro")
    torch.linalg.qr(torch.ones(3, 2), "reduced")
    torch.linalg.matrix_norm(torch.ones(2, 2), ord="nuc")
    torch.index_reduce(torch.ones(3), 0, torch.tensor([0, 2]), torch.ones(2), "prod", include_self=True)
    torch.segment_reduce(torch.ones(4), "max", lengths=torch.tensor([1, 3]))
    F.gelu(x, approximate="tanh"), F.gelu(x)
    customops.text("plain", "")
    customops.text("ünïcode ✓", "spaces and\ttabs" if NEW else "spaces")
    customops.text("x" * 300, "y" * 20)


def padding_and_resampling():
    x = torch.arange(32.0).reshape(1, 2, 4, 4)
    for mode in ("constant", "reflect", "replicate", "circular"):
        F.pad(x, (1, 1, 1, 1), mode=mode)
    F.pad(x, (1, 2), value=-1.5), F.pad(x, (-1, 0, 0, -1))
    F.interpolate(x, scale_factor=2.0), F.interpolate(x, size=(3, 5), mode="nearest-exact")
    F.interpolate(x, scale_factor=(1.5, 0.5), mode="bilinear", align_corners=False)
    F.interpolate(x, size=(7, 7), mode="bicubic", align_corners=True)
    F.interpolate(x, size=(2, 2), mode="area")
    F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True, recompute_scale_factor=True)
    F.interpolate(x.reshape(1, 8, 4), scale_factor=3.0, mode="linear")
    F.interpolate(x.reshape(1, 1, 2, 4, 4), scale_factor=(1.0, 2.0, 0.5), mode="trilinear")
    grid = F.affine_grid(torch.eye(2, 3).unsqueeze(0), (1, 2, 3, 3), align_corners=False)
    F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=True)
    F.grid_sample(x, grid, mode="nearest", padding_mode="reflection", align_corners=False)
    F.pixel_shuffle(torch.ones(1, 4, 2, 2), 2), F.fold(F.unfold(x, 2), (4, 4), 2)


def factories():
    torch.empty(2, 3), torch.empty((2, 3), dtype=torch.int16, pin_memory=False)
    torch.zeros(3, device="cpu")
    torch.ones(2, layout=torch.strided)
    torch.zeros_like(torch.ones(2), dtype=torch.float64, device="cpu")
    torch.empty((2, 3, 4, 5), memory_format=torch.channels_last), torch.full_like(torch.ones(2), -3)
    torch.tensor([1, 2, 3]), torch.tensor([[1.5], [2.5]]), torch.tensor([True, False])
    torch.tensor([1j])
    torch.tensor([1.0, 2.0], requires_grad=True), torch.as_tensor([3, 4]), torch.tensor([])
    torch.randperm(7), torch.hann_window(4), torch.hamming_window(5, False, 0.5, 0.4)
    torch.kaiser_window(4, True, 9.0)
    torch.tril_indices(3, 3, -1), torch.triu_indices(2, 4)
    torch.cartesian_prod(torch.arange(2), torch.arange(3))
    torch.vander(torch.arange(3)), torch.complex(torch.ones(2), torch.ones(2))
    torch.polar(torch.ones(2), torch.ones(2))
    torch.ones(2).new_zeros(3), torch.ones(2).new_full((2, 2), 1.5)
    torch.ones(2).new_tensor([1, 2])
    torch.empty(3, device="meta").add(1), torch.zeros((2, 2), device="meta", dtype=torch.int8).t()
    for index in (-1, 0):
        torch.zeros(2, device=torch.device("cpu") if index < 0 else torch.device("cpu", 0))


def randoms():
    g = torch.Generator().manual_seed(7)
    torch.manual_seed(3)
    torch.rand(3, generator=g), torch.randn((2, 2), generator=g)
    torch.randint(0, 10, (3,), generator=g)
    torch.randperm(4, generator=g), torch.rand(3), torch.randn(2)
    torch.randint(-5, 5, (2,), dtype=torch.int32)
    torch.bernoulli(torch.full((3,), 0.5)), torch.bernoulli(torch.ones(2), 0.25, generator=g)
    torch.multinomial(torch.ones(5), 3, True, generator=g), torch.poisson(torch.ones(3))
    torch.normal(0.0, 1.0, (2,)), torch.normal(torch.zeros(2), torch.ones(2))
    torch.normal(torch.zeros(2), 2.0)
    x = torch.empty(3)
    x.uniform_(-1, 1), x.normal_(2, 3), x.exponential_(0.5), x.geometric_(0.3), x.cauchy_(0, 2)
    x.log_normal_(1, 2)
    x.random_(3, 9), x.random_(5), x.random_(), x.bernoulli_(0.5), torch.rand_like(x)
    torch.randn_like(x)
    torch.randint_like(x, 3, 8), F.dropout(x, 0.3, True), F.dropout(x, 0.3, False)
    F.alpha_dropout(x, 0.1, True)
    F.dropout2d(torch.ones(1, 2, 2, 2), 0.4), F.rrelu(x, 0.1, 0.2, training=True)
    torch.distributions.Normal(0.0, 1.0).sample((2,))


def pointwise():
    x = torch.linspace(0.1, 0.9, 6).reshape(2, 3)
    y = torch.full((3,), 2.0)
    unary = (
        "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square sin cos tan asin acos atan sinh cosh tanh "
        "sigmoid erf erfc erfinv ceil floor round trunc frac reciprocal sign sgn relu digamma lgamma i0 deg2rad "
        "rad2deg logit signbit isfinite isnan isinf positive angle nan_to_num asinh atanh selu hardsigmoid silu mish "
        "special_i1 special_ndtr special_entr special_log_ndtr sinc"
    )
    for name in unary.split():
        (getattr(torch, name, None) or getattr(F, name, None) or getattr(torch.special, name[8:]))(x)
    for name in "abs_ neg_ exp_ log_ sqrt_ sin_ cos_ tanh_ sigmoid_ ceil_ round_ relu_ reciprocal_ zero_".split():
        getattr(x.clone(), name)()
    binary = (
        "add sub mul div true_divide floor_divide remainder fmod pow atan2 maximum minimum fmax fmin hypot eq ne lt le "
        "gt ge logaddexp logaddexp2 copysign nextafter xlogy logical_and logical_or logical_xor heaviside float_power"
    )
    for name in binary.split():
        getattr(torch, name)(x, y)
    for name in "add_ sub_ mul_ div_ pow_ eq_ atan2_ copysign_ remainder_".split():
        getattr(x.clone(), name)(y)
    a, b = torch.tensor([1, 2, 12]), torch.tensor([3, 5, 8])
    for name in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm ldexp".split():
        getattr(torch, name)(a, b)
    torch.bitwise_not(a), torch.logical_not(x), ~a, a.float().frexp(), a.sign_(), x.polygamma(2)
    torch.mvlgamma(x + 2, 2)
    F.glu(torch.ones(4)), F.prelu(x, torch.tensor([0.1])), F.logsigmoid(x), F.softsign(x)
    F.hardswish(x), F.relu6(x)
    torch.isclose(x, x, rtol=1e-4, atol=0.0, equal_nan=True), torch.isin(a, b)
    torch.round(x, decimals=2)
    x.clamp(torch.zeros(3), None), x.clamp(y - 5, y), torch.lerp(x, x, torch.ones(3))
    x.addcdiv_(x, y, value=2)


def reductions():
    x = torch.linspace(-2, 2, 24).reshape(2, 3, 4)
    for name in "sum mean prod std var amax amin argmax argmin all any nansum median max min norm".split():
        getattr(torch, name)(x if name not in ("all", "any") else x > 0)
    x.sum(1), x.sum((0, -1)), x.sum(1, True, dtype=torch.float64), x.mean(0)
    x.mean((1, 2), keepdim=True), x.prod(2)
    x.std(1), x.std((0, 1), unbiased=False), x.var(2, True), torch.var_mean(x, 1)
    torch.std_mean(x, (0, 2))
    x.amax(1), x.amin((0, 2), True), x.argmax(1), x.argmin(-1, keepdim=True), x.logsumexp((1, 2))
    torch.aminmax(x, dim=1)
    x.max(1), x.min(-1, keepdim=True), x.median(1), x.mode(2), x.kthvalue(2, 1), x.nanmedian(1)
    x.nanmean(1)
    (x > 0).all(1), (x > 0).any(-1, True), x.count_nonzero(1), x.norm(2, 1), x.norm(p=1.5, dim=(0, 1), keepdim=True)
    x.cumsum(1), x.cumprod(0, dtype=torch.float64), x.cummax(2), x.cummin(1), x.logcumsumexp(1)
    x.diff(2, 1)
    x.sort(2), x.sort(1, descending=True), torch.sort(x, stable=True, dim=0), x.argsort(1)
    x.topk(2), x.topk(1, 0, False, False)
    x.msort(), torch.unique(x)
    torch.unique(x, sorted=True, return_inverse=True, return_counts=True, dim=1)
    torch.unique_consecutive(torch.tensor([1, 1, 2]), return_counts=True)
    torch.tensor([1, 1, 2]).bincount(minlength=5)
    torch.histc(x, 4, -2, 2), torch.histogram(x, 3, range=(-1.0, 1.0)), x.quantile(0.5)
    x.quantile(torch.tensor([0.2]), 1)
    x.softmax(-1), x.softmax(1, dtype=torch.float64), x.log_softmax(0), F.softmin(x, 1)
    F.normalize(x, dim=2)
    x[0].trace(), x.renorm(2, 0, 1.0), torch.cov(x[0]), torch.corrcoef(x[0]), torch.cdist(x, x)
    F.pdist(x[0]), x.dist(x)
    torch.trapezoid(x, dx=0.5), torch.cumulative_trapezoid(x, dim=1)
    torch.gradient(x, spacing=2.0, dim=(0, 1))


def linear_algebra():
    a, b, v = torch.eye(3) * 2 + 0.1, torch.arange(9.0).reshape(3, 3), torch.ones(3)
    a @ b, torch.mm(a, b), torch.mv(a, v), torch.dot(v, v), torch.outer(v, v), torch.ger(v, v)
    torch.inner(a, b), torch.kron(a, b)
    torch.bmm(a.expand(2, 3, 3), b.expand(2, 3, 3))
    torch.baddbmm(v, a.expand(2, 3, 3), b.expand(2, 3, 3), beta=0.5)
    torch.addmv(v, a, v, alpha=2), torch.addr(a, v, v, beta=3)
    torch.addbmm(a, a.unsqueeze(0), b.unsqueeze(0)), v @ a
    torch.matmul(a.expand(2, 1, 3, 3), b.expand(4, 3, 3)), torch.chain_matmul(a, b, a)
    torch.linalg.multi_dot([a, b, a])
    torch.tensordot(a, b, 1), torch.tensordot(a, b, dims=([0, 1], [1, 0]))
    torch.cross(v, v + 1, dim=0), torch.vdot(v, v)
    torch.linalg.det(a), torch.linalg.slogdet(a), torch.linalg.inv(a), torch.linalg.solve(a, b)
    torch.linalg.cholesky(a)
    torch.linalg.svd(b, full_matrices=False), torch.linalg.svdvals(b), torch.linalg.eigh(a, "U")
    torch.linalg.eigvals(b)
    torch.linalg.qr(b), torch.linalg.lu(a), torch.linalg.lstsq(a, b), torch.linalg.pinv(b)
    torch.linalg.matrix_rank(b)
    torch.linalg.matrix_power(a, 3), torch.linalg.matrix_exp(a), torch.linalg.vector_norm(v, 3)
    torch.linalg.norm(b, -inf)
    torch.linalg.solve_triangular(a.triu(), b, upper=True, left=True, unitriangular=False)
    torch.cholesky_solve(b, a)
    a.triu(1), b.tril(-1), a.tril_(), b.diag(), v.diag(1), torch.diag_embed(v, offset=1)
    b.diagonal().sum(), b.fill_diagonal_(4)
    F.linear(a, b, v), F.linear(a, b), F.bilinear(a, b, torch.ones(2, 3, 3))
    F.cosine_similarity(a, b), F.pairwise_distance(a, b, 1.0)
    torch.block_diag(a, b), torch.rot90(a, 1, (0, 1)), torch.tile(v, (2, 2)), v.repeat(2, 3)
    v.repeat_interleave(2), a.roll((1, 2), (0, 1))


def joining_and_indexing():
    x = torch.arange(24.0).reshape(4, 6)
    i, mask = torch.tensor([2, 0]), x > 11
    torch.cat([x, x]), torch.cat((x, x), 1), torch.stack([x, x, x], 2), torch.hstack((x, x))
    torch.vstack((x, x))
    torch.column_stack([x, x]), torch.dstack([x, x]), torch.concat([x], 0)
    torch.nn.utils.rnn.pad_sequence([x[0], x[1, :3]], True, -1.0)
    x[i], x[:, i], x[i, i], x[None, 1], x[..., -1], x[mask], x[0, i], x[[0, 1], [2, 3]]
    x[:, None, i], x[i][:, i], x[2:3, ..., None]
    y = x.clone()
    y[0] = 1
    y[:, 1] = 5
    y[i] = x[i]
    y[mask] = -2.0
    y[i, i] = torch.tensor([7.0, 8.0])
    y.index_put_((i,), torch.tensor(3.0), accumulate=True)
    torch.gather(x, 1, torch.zeros(4, 2, dtype=torch.int64)), x.index_select(1, i), x.take(i)
    x.take_along_dim(i.expand(4, 2), 1), x.masked_select(mask)
    y.scatter_(1, torch.zeros(4, 1, dtype=torch.int64), 1.5)
    y.scatter_add_(0, torch.zeros(1, 6, dtype=torch.int64), x[:1]), y.index_fill_(0, i, -1)
    y.index_add_(0, i, x[:2], alpha=2), y.index_copy_(1, i, x[:, :2]), y.masked_fill_(mask, 0.5)
    y.masked_scatter_(mask, x), y.put_(i, torch.ones(2))
    torch.nonzero(x), torch.nonzero(x, as_tuple=True), torch.argwhere(mask), torch.where(mask)
    torch.where(mask, x, y), torch.flip(x, [0, 1]), x.fliplr()
    torch.select_scatter(x, x[0], 0, 1), torch.slice_scatter(x, x[:2], 0, 2, 4, 1)
    torch.diagonal_scatter(x, torch.ones(4)), torch.combinations(x[0], 2)
    torch.index_put(x, (i,), torch.ones(2, 6)), torch.ops.aten.index.Tensor(x, [None, i])


def out_variants():
    x, out, out2 = torch.arange(6.0).reshape(2, 3), torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.add(x, 1, out=out), torch.mul(x, x, out=out), torch.mm(x, x.t(), out=torch.empty(2, 2))
    torch.cat([x, x], out=torch.empty(0))
    torch.max(x, 1, out=(torch.empty(0), out2))
    torch.sort(x, out=(torch.empty(0), torch.empty(0, dtype=torch.int64)))
    torch.topk(x, 2, out=(torch.empty(0), torch.empty(0, dtype=torch.int64)))
    torch.arange(5, out=torch.empty(0, dtype=torch.int64))
    torch.linspace(0, 1, 3, out=torch.empty(3)), torch.ones(2, 2, out=torch.empty(0))
    torch.clamp(x, 1, 2, out=torch.empty_like(x))
    torch.sum(x, 1, out=torch.empty(0))
    torch.index_select(x, 0, torch.tensor([1]), out=torch.empty(0))
    torch.stack([x], out=torch.empty(0))
    torch.linalg.svd(x, full_matrices=False, out=(torch.empty(0), torch.empty(0), torch.empty(0)))
    torch.bernoulli(x / 6, out=torch.empty(2, 3))


def networks():
    torch.manual_seed(1)
    x = torch.ones(2, 3, 8, 8)
    weight, bias = torch.ones(4, 3, 3, 3), torch.zeros(4)
    F.conv2d(x, weight, bias, stride=2, padding=1)
    F.conv2d(x, weight, padding="same", dilation=(1, 2)), F.conv2d(x, weight, padding="valid")
    F.conv1d(x[:, :, 0], weight[:, :, 0])
    F.conv3d(torch.ones(1, 1, 4, 4, 4), torch.ones(2, 1, 2, 2, 2))
    F.conv_transpose2d(x, weight.transpose(0, 1), output_padding=1, stride=2)
    F.conv2d(x, torch.ones(3, 1, 3, 3), groups=3), F.max_pool2d(x, 2, ceil_mode=True)
    F.max_pool2d(x, 2, return_indices=True), F.avg_pool2d(x, (2, 3), 1, 1, False, True, 3)
    F.adaptive_avg_pool2d(x, (3, None)), F.adaptive_max_pool2d(x, 2), F.lp_pool2d(x, 2.0, 2)
    F.max_pool1d(x[0], 2), F.avg_pool3d(torch.ones(1, 4, 4, 4), 2)
    F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)
    F.fractional_max_pool2d(x, 2, output_size=3)
    F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True, momentum=0.3)
    F.batch_norm(x, torch.zeros(3), torch.ones(3), torch.ones(3), None)
    F.layer_norm(x, (8, 8)), F.layer_norm(x, (8,), torch.ones(8), torch.zeros(8), 1e-3)
    F.group_norm(x, 3), F.instance_norm(x), F.local_response_norm(x, 2)
    torch.native_layer_norm(x, (8,), None, None, 1e-5)
    torch.native_batch_norm(x, None, None, torch.zeros(3), torch.ones(3), False, 0.1, 1e-4)
    lstm = nn.LSTM(3, 5, num_layers=2, bidirectional=True)
    lstm(torch.ones(4, 2, 3)), nn.GRU(3, 4, batch_first=True)(torch.ones(2, 4, 3))
    nn.RNN(3, 2, nonlinearity="relu")(torch.ones(4, 1, 3))
    nn.LSTMCell(3, 4)(torch.ones(2, 3)), nn.GRUCell(3, 4)(torch.ones(2, 3))
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(4, 2, 3), torch.tensor([4, 2]))
    nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])
    F.embedding(torch.tensor([[1, 2]]), torch.ones(5, 3), padding_idx=1, max_norm=1.0)
    F.one_hot(torch.tensor([0, 2]), 4)
    F.embedding_bag(torch.tensor([1, 2, 4]), torch.ones(5, 3), torch.tensor([0, 2]), mode="sum")
    F.embedding(torch.tensor(2), torch.ones(5, 3))
    attention = nn.MultiheadAttention(8, 2, dropout=0.1)
    attention(torch.ones(3, 1, 8), torch.ones(3, 1, 8), torch.ones(3, 1, 8))
    nn.TransformerEncoderLayer(8, 2, 16).eval()(torch.ones(3, 1, 8))
    if hasattr(F, "scaled_dot_product_attention"):
        q = torch.ones(1, 2, 3, 4)
        F.scaled_dot_product_attention(q, q, q)
        F.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(3, 3), scale=0.3)
        F.scaled_dot_product_attention(q, q, q, is_causal=True)


def losses():
    x, y = torch.linspace(0.1, 0.8, 8).reshape(2, 4), torch.full((2, 4), 0.5)
    target = torch.tensor([1, 3])
    for reduction in ("none", "mean", "sum"):
        F.mse_loss(x, y, reduction=reduction), F.cross_entropy(x, target, reduction=reduction)
        F.binary_cross_entropy(x, y, reduction=reduction)
    F.l1_loss(x, y), F.smooth_l1_loss(x, y, beta=0.5), F.huber_loss(x, y, delta=0.3)
    F.kl_div(x.log(), y, log_target=False), F.nll_loss(x, target, ignore_index=-7)
    F.cross_entropy(x, target, torch.ones(4), label_smoothing=0.1)
    F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.ones(4)), F.soft_margin_loss(x, y)
    F.poisson_nll_loss(x, y), F.gaussian_nll_loss(x, y, torch.ones(2, 4))
    F.multi_margin_loss(x, target), F.hinge_embedding_loss(x, y.sign())
    F.margin_ranking_loss(x, y, y.sign(), 0.2)
    F.triplet_margin_loss(x, y, x + 1), F.cosine_embedding_loss(x, y, torch.ones(2))
    F.multilabel_soft_margin_loss(x, y)
    F.multilabel_margin_loss(x, torch.zeros(2, 4, dtype=torch.int64))
    F.ctc_loss(torch.zeros(6, 2, 4).log_softmax(2), torch.tensor([[1, 2], [2, 3]]), torch.tensor([6, 6]), torch.tensor([2, 2]))
    F.ctc_loss(torch.zeros(6, 2, 4).log_softmax(2), torch.tensor([1, 2, 2, 3]), (6, 6), (2, 2), reduction="sum", zero_infinity=True)


def lists():
    xs, ys = [torch.ones(2), torch.ones(3, 2), torch.zeros(())], [torch.ones(2), torch.ones(3, 2), torch.ones(())]
    torch._foreach_add(xs, 2.0), torch._foreach_add(xs, ys, alpha=3)
    torch._foreach_mul_(xs, [1.0, -2.5, 3.0]), torch._foreach_sqrt(ys), torch._foreach_neg_(ys)
    torch._foreach_addcmul(xs, ys, ys, 0.5), torch._foreach_addcdiv_(xs, ys, ys, [1.0, 2.0, 3.0])
    torch._foreach_sub(xs, ys), torch._foreach_div(xs, [1, 2, 3]), torch._foreach_norm(xs)
    torch.broadcast_tensors(*xs), torch.stack([torch.ones(1)] * 40)
    torch.cat([torch.ones(1)] * 300)
    torch.split(torch.arange(10.0), [1, 2, 3, 4]), torch.zeros(60).unbind(0)
    torch.einsum("i,j,k->ijk", torch.ones(2), torch.ones(2), torch.ones(2))
    torch._foreach_zero_(xs), nn.utils.clip_grad_norm_([torch.ones(2, requires_grad=True)], 1.0)
    torch.nn.utils.parameters_to_vector(xs)


def doubles():
    """Floats that come in SSE registers, each with a value of its own."""
    torch.manual_seed(2)
    x, ones = torch.rand(2, 3, 4, 4), torch.ones(3)
    rows = torch.rand(4, 3, requires_grad=True)
    F.layer_norm(x, (4,), None, None, 0.125), F.layer_norm(x, (4, 4), torch.ones(4, 4), None, 0.25)
    torch.native_layer_norm(rows, (3,), ones, ones, 0.375)[0].sum().backward()
    F.batch_norm(x, ones.clone(), ones.clone(), ones, ones, True, 0.3, 0.002)
    F.batch_norm(x, ones, ones, None, None, False, 0.7, 0.5), F.instance_norm(x, momentum=0.2, eps=0.5)
    torch.native_batch_norm(x, ones, ones, ones.clone(), ones.clone(), True, 0.6, 0.125)
    F.group_norm(x, 3, eps=0.75), F.local_response_norm(x, 2, 0.001, 0.5, 2.0)
    for drop in "dropout alpha_dropout feature_dropout feature_alpha_dropout".split():
        getattr(torch, drop)(x, 0.375, True), getattr(torch, drop + "_")(x.clone(), 0.625, True)
    y = torch.empty(3)
    y.uniform_(-0.5, 0.75), y.normal_(0.25, 1.5), y.exponential_(2.5), y.geometric_(0.125), y.cauchy_(0.5, 3.0)
    y.log_normal_(0.75, 0.5), y.bernoulli_(0.25), torch.bernoulli(y.fill_(1), 0.75)
    torch.normal(ones, 0.5), torch.normal(0.125, ones), torch.normal(0.5, 2.5, (2,))
    F.rrelu(x, 0.125, 0.375, True), F.gumbel_softmax(rows, 0.5)
    torch.embedding_renorm_(torch.rand(5, 3), torch.tensor([1, 2]), 0.5, 1.5)
    F.cosine_embedding_loss(rows, rows, torch.ones(4), 0.25), F.margin_ranking_loss(ones, ones, ones, 0.5)
    F.triplet_margin_loss(rows, rows, rows, 0.5, 3.0, 1e-2), F.hinge_embedding_loss(ones, ones, 0.75)
    F.huber_loss(ones, ones, delta=0.25), F.smooth_l1_loss(ones, ones, beta=0.125)
    F.poisson_nll_loss(ones, ones, eps=0.5)
    torch.cdist(rows, torch.rand(2, 3), 3.0).sum().backward(), F.pdist(rows, 3.5).sum().backward()
    torch.cosine_similarity(rows, rows, 1, 0.01), F.pairwise_distance(rows, rows, 3.0, 0.25)
    torch.allclose(ones, ones, 0.25, 0.5), torch.isclose(ones, ones, 0.75, 0.125)
    torch.fft.fftfreq(5, 0.25), torch.fft.rfftfreq(4, 0.5)
    torch.fft.fftfreq(5, 0.75, out=torch.empty(5)), torch.fft.rfftfreq(4, 0.125, out=torch.empty(3))
    torch.hamming_window(5, True, 0.625, 0.375), torch.kaiser_window(4, True, 3.5), torch.logspace(0, 1, 3, 2.5)
    ones.logit(0.25), torch.nan_to_num(ones, 0.5, 1.5, 2.5), torch.quantile(ones, 0.25)
    torch.nanquantile(ones, 0.75, 0, interpolation="lower")
    torch.quantile(ones, 0.5, 0, True), torch.quantile(ones, 0.5, interpolation="nearest")
    q = torch.quantize_per_tensor(x, 0.125, 3, torch.quint8)
    torch.quantized_batch_norm(q, ones, ones, ones, ones, 0.25, 0.5, 7)
    torch._empty_affine_quantized((2,), scale=0.25, zero_point=1, dtype=torch.qint8)
    torch.fake_quantize_per_tensor_affine(rows, 0.375, 0, 0, 255).sum().backward()
    zero, one = torch.zeros(1, dtype=torch.int), torch.ones(1, dtype=torch.long)
    lo, hi, scale, point = torch.zeros(1), torch.ones(1), torch.ones(1), torch.zeros(1, dtype=torch.int)
    torch.fused_moving_avg_obs_fake_quant(rows, one, one, lo, hi, scale, point, 0.125, 0, 255, -1)
    torch.native_dropout(x, 0.25, True) if hasattr(torch, "native_dropout") else 0
    F.dropout(rows, 0.5).sum().backward()
    F.interpolate(x, scale_factor=1.5), F.interpolate(x, scale_factor=(0.75, 1.25), mode="bicubic")
    F.pad(x, (1, 1), value=0.75)
    torch.std(ones), torch.lerp(ones, ones, 0.25)
    torch.segment_reduce(ones, "sum", lengths=torch.tensor([1, 2]), initial=0.5)
    torch.ops.aten.native_dropout_backward(x, x > 0.5, 1.25)
    torch.gradient(rows, spacing=0.5)
    torch.stft(torch.rand(16), 8, normalized=True, return_complex=True)
    if hasattr(F, "scaled_dot_product_attention"):
        a = torch.rand(1, 2, 3, 4, requires_grad=True)
        F.scaled_dot_product_attention(a, a, a, scale=0.3).sum().backward()
        F.scaled_dot_product_attention(a, a, a, dropout_p=0.25)
    if hasattr(F, "rms_norm"):
        F.rms_norm(x, (4,), None, 0.5)


def grad_flags():
    """alpha is 1000 + 2 * self.requires_grad + other.requires_grad, and the comparer reads it."""
    plain, leaf = torch.ones(3), torch.ones(3, requires_grad=True)
    for a in (plain, leaf, leaf * 2, leaf.detach(), plain.clone().requires_grad_()):
        for b in (plain, leaf):
            torch.add(a, b, alpha=1000 + 2 * a.requires_grad + b.requires_grad)
    with torch.no_grad():
        torch.add(leaf, leaf * 2, alpha=1002), torch.add(plain, leaf, alpha=1001)
        torch.add(leaf[1:], leaf[1:], alpha=1000 + 3 * leaf[1:].requires_grad)
    with torch.inference_mode():
        torch.add(torch.ones(2), torch.ones(2), alpha=1000)
    tag(plain, requires_grad=False), tag(leaf, requires_grad=True)
    tag(leaf.exp(), requires_grad=True)


def quantized():
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    q = torch.quantize_per_tensor(dense, 0.1, 10, torch.quint8)
    q.dequantize(), q.int_repr(), q.q_scale(), q.q_zero_point()
    torch.fake_quantize_per_tensor_affine(dense, 0.1, 0, 0, 255)
    torch.quantize_per_channel(dense, torch.ones(2), torch.zeros(2), 0, torch.qint8)


def layouts():
    """Outside the logged region: PyTorch's log cannot hold tensors without strides, 2.13's dies of them."""
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    sparse = dense.to_sparse()
    csr = dense.to_sparse_csr()
    tag(dense, layout=torch.strided), tag(sparse, layout=torch.sparse_coo, dtype=torch.float32)
    tag(csr, layout=torch.sparse_csr, shape=[2, 2])
    sparse.coalesce(), sparse.to_dense(), torch.sparse.mm(sparse, dense), sparse + sparse
    csr.to_dense(), csr @ dense
    torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), (2, 2))
    csr.crow_indices()
    if torch.backends.mkldnn.is_available():
        torch.ones(2, 2).to_mkldnn().to_dense()


def dimnames():
    if NEW:
        return
    x = torch.zeros(2, 3, names=("N", "C"))
    x.sum("C"), x.align_to("C", "N"), x.rename(None), x.rename(N="B"), x.max("C")
    torch.cat([x, x], "N"), x.select("N", 0), x.transpose("N", "C")
    torch.zeros(2, 3, names=(None, "C")).mean("C", keepdim=True), x.flatten(["N", "C"], "ALL")
    x.softmax("C"), torch.zeros(1, names=("a_long_name_of_a_dimension",)).rename(None)
    x.refine_names(..., "C"), x.rename(None).refine_names("N", None), x.unflatten("C", [("H", 3), ("W", 1)])


def backward():
    w = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    x = torch.ones(2, 3)
    h = torch.tanh(x @ w).pow(2)
    loss = F.cross_entropy(h, torch.tensor([1, 2])) + w[1:, ::2].sum() + torch.max(w, 1)[0].mean() + w.norm()
    loss.backward()
    w.grad.zero_()
    y = F.layer_norm(F.linear(torch.ones(2, 4, requires_grad=True), w), (3,))
    a, b = y.split([1, 2], 1)
    (a.exp().sum() + torch.cat([b, b * 2]).sum() + torch.stack([a, a]).mean()).backward()
    (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    torch.autograd.grad(g.sum(), w)
    conv = torch.ones(1, 2, 5, 5, requires_grad=True)
    F.max_pool2d(F.conv2d(conv, torch.ones(3, 2, 3, 3, requires_grad=True)), 2).sum().backward()
    table = torch.ones(5, 3, requires_grad=True)
    (F.embedding(torch.tensor([1, 1, 4]), table).sum() + table[torch.tensor([0, 2])].sum()).backward()
    with torch.no_grad():
        w.add_(w.grad, alpha=-0.1) if w.grad is not None else None
    inplace = torch.ones(4, requires_grad=True) * 1.0
    inplace[1:3].mul_(3)
    inplace.sum().backward()
    nn.LSTM(2, 2)(torch.ones(3, 1, 2))[0].sum().backward()
    p = nn.Parameter(torch.ones(3))
    for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad):
        optimizer = make([p], lr=0.1)
        (p * p).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def throwing():
    attempts = (
        lambda: torch.ones(3) + torch.ones(4),
        lambda: torch.ones(2, 3) @ torch.ones(2, 3),
        lambda: torch.ones(3).view(7),
        lambda: torch.cat([torch.ones(2, 2), torch.ones(3, 3)]),
        lambda: torch.ones(3)[torch.tensor([9])],
        lambda: torch.linalg.cholesky(-torch.eye(2)),
        lambda: F.linear(torch.ones(2, 3), torch.ones(4, 5)),
        lambda: torch.ops.aten.add.Tensor(torch.ones(3), torch.ones(5)),
        lambda: customops.fail(torch.ones(2)),
        lambda: (torch.ones(2, requires_grad=True) * 2).backward(),
    )
    for attempt in attempts:
        try:
            attempt()
        except (RuntimeError, IndexError, ValueError):
            torch.full((1,), 77)
        else:
            raise AssertionError("this had to throw")


SECTIONS = (
    dtypes, dimensions, views, scalars, strings, padding_and_resampling, factories, randoms,
    pointwise, reductions, linear_algebra, joining_and_indexing, out_variants, networks, losses,
    lists, doubles, grad_flags, quantized, dimnames, backward, customops.section, modes.section, throwing,
)  # fmt: skip


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--log")
    p.add_argument("--only", help="sections to run, comma-separated")
    args = p.parse_args()
    torch.set_num_threads(1)
    with observer.region(args.log):
        for section in SECTIONS:
            name = f"{section.__module__}.{section.__name__}".replace("__main__.", "")
            if not args.only or name in args.only.split(","):
                section()
    layouts()
    print("done", flush=True)


if __name__ == "__main__":
    sys.exit(main())
