"""Captures of operators that one library alone has, and of what CUDA rounds and the CPU does not, for the tests of replay:
device_captures.py FOLDER. Those of even numbers are wrong, and printed."""
import json
import os
import sys

import torch

torch.manual_seed(0)
x, grad = torch.randn(4, 3, 5, 5).half(), torch.randn(4, 3, 5, 5).half()
weight, bias, mean, var = torch.rand(3), torch.randn(3), torch.zeros(3), torch.ones(3)
out, saved_mean, saved_std = torch.native_batch_norm(x.float(), weight, bias, mean.clone(), var.clone(), True, 0.1, 1e-5)
reserve = torch.zeros(8, dtype=torch.uint8)
grads = torch.ops.aten.native_batch_norm_backward(grad.float(), x.float(), weight, mean, var, saved_mean, saved_std, True, 1e-5,
                                                  [True] * 3)
normed = (x, weight, bias, mean, var, True, 0.1, 1e-5)
back = (x, grad, weight, mean, var, saved_mean, saved_std, 1e-5, reserve)
image, kernel = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
q, k, v = (torch.randn(2, 2, 6, 8).half() for _ in range(3))
looked = ((q.float() @ k.float().transpose(-1, -2) / 8**0.5).softmax(-1) @ v.float()).half()
rest = [torch.zeros(1)] * 3


def attention(q, k, v, g, bias=None, causal=False):
    """(result, its logsumexp, gradients of all) of a kernel that computes in float32, its backward from the rounded result."""
    dtype, scale = q.dtype, q.shape[-1]**-0.5
    q, k, v, g = (t.float() for t in (q, k, v, g))
    scores = q @ k.transpose(-1, -2) * scale + (0 if bias is None else bias.float())
    scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), float("-inf")) if causal else scores
    p = scores.softmax(-1)
    r = (p @ v).to(dtype)
    ds = p * (g @ v.transpose(-1, -2) - (g * r.float()).sum(-1, keepdim=True))
    grads = [ds @ k * scale, ds.transpose(-1, -2) @ q * scale, p.transpose(-1, -2) @ g, ds][:3 if bias is None else 4]
    return r, scores.logsumexp(-1), [x.to(dtype) for x in grads]


def turned(*tensors):
    return [t.transpose(1, 2) for t in tensors]


dout, bias = torch.randn(2, 2, 6, 8).half(), torch.randn(2, 2, 6, 6).half()
plain, plain_lse, plain_grads = attention(q, k, v, dout)
causal, causal_lse, causal_grads = attention(q, k, v, dout, causal=True)
biased, biased_lse, biased_grads = attention(q, k, v, dout, bias)
seed = torch.zeros((), dtype=torch.int64)
long_lse = torch.nn.functional.pad(biased_lse, (0, 26), value=float("inf"))  # kernels round its length up to 32
many = torch.tensor([0, 3, 6], dtype=torch.int32)


def flash_of(dropout=0.0, is_causal=True, cumulated=None):
    return (dout, q, k, v, causal, causal_lse, cumulated, cumulated, 6, 6, dropout, is_causal, seed, seed)


def wrong(grads, place):
    return [g * 1.02 if i == place else g for i, g in enumerate(grads)]


efficient = (dout, q, k, v, bias, biased, long_lse, seed, seed, 0.0, [True] * 4)
cudnn = (dout, q, k, v, causal, causal_lse.unsqueeze(-1), seed, seed, None, None, None, 6, 6, 0.0, True)
inner_flash = (*turned(dout, q, k, v, causal), *flash_of()[5:])
inner = (*turned(dout, q, k, v), None, turned(plain)[0], None, None, 6, 6, plain_lse, 0.0, seed, seed, 0, False)
inner_grads = [*turned(*plain_grads), None]
scaled = [torch.tensor([2.0, 4.0]), torch.tensor([float("inf")])]
zero, one = torch.zeros(()), torch.ones(())
CALLS = {
    # id: (operator, arguments, results, what was written to where nothing is returned)
    1: ("cudnn_batch_norm", normed, (out.half(), saved_mean, saved_std, reserve)),
    2: ("cudnn_batch_norm", normed, (out.half(), saved_mean, saved_std * 1.01, reserve)),
    3: ("cudnn_batch_norm_backward", back, (grads[0].half(), *grads[1:])),
    4: ("cudnn_batch_norm_backward", back, (grads[0].half() * 1.05, *grads[1:])),
    5: ("mkldnn_convolution", (image, kernel, None, [1, 1], [2, 2], [1, 1], 1), (torch.conv2d(image, kernel, None, 2, 1),)),
    6: ("mkldnn_convolution", (image, kernel, None, [1, 1], [2, 2], [1, 1], 1), (torch.conv2d(image, kernel, None, 2, 1) * 1.01,)),
    7: ("_amp_foreach_non_finite_check_and_unscale_", (scaled, zero, torch.tensor(0.5)), (None,),
        {"self": [s / 2 for s in scaled], "found_inf": one}),
    8: ("_amp_foreach_non_finite_check_and_unscale_", (scaled, zero, torch.tensor(0.5)), (None,),
        {"self": [s / 2 for s in scaled], "found_inf": zero}),
    9: ("_amp_update_scale_", (torch.tensor(1024.0), torch.tensor(3, dtype=torch.int32), zero, 2.0, 0.5, 4), (torch.tensor(2048.0),)),
    10: ("_amp_update_scale_", (torch.tensor(1024.0), torch.tensor(3, dtype=torch.int32), one, 2.0, 0.5, 4), (torch.tensor(2048.0),)),
    11: ("_scaled_dot_product_efficient_attention", (q, k, v, None, False), (looked, *rest)),
    12: ("_scaled_dot_product_efficient_attention", (q, k, v, None, False), (looked * 1.02, *rest)),
    13: ("_scaled_dot_product_efficient_attention", (q, k, v, None, False, 0.1), (looked, *rest)),
    21: ("_scaled_dot_product_flash_attention_backward", flash_of(), causal_grads),
    22: ("_scaled_dot_product_flash_attention_backward", flash_of(), wrong(causal_grads, 0)),
    25: ("_scaled_dot_product_flash_attention_backward", flash_of(0.1), causal_grads),
    27: ("_scaled_dot_product_flash_attention_backward", flash_of(cumulated=many), causal_grads),
    29: ("_scaled_dot_product_flash_attention_backward", flash_of(is_causal=False), causal_grads),
    31: ("_scaled_dot_product_efficient_attention_backward", efficient, biased_grads),
    32: ("_scaled_dot_product_efficient_attention_backward", efficient, wrong(biased_grads, 3)),
    33: ("_scaled_dot_product_cudnn_attention_backward", cudnn, causal_grads),
    34: ("_scaled_dot_product_cudnn_attention_backward", cudnn, wrong(causal_grads, 1)),
    35: ("_flash_attention_backward", inner_flash, turned(*causal_grads)),
    36: ("_flash_attention_backward", inner_flash, wrong(turned(*causal_grads), 2)),
    37: ("_efficient_attention_backward", inner, inner_grads),
    38: ("_efficient_attention_backward", inner, [*wrong(inner_grads[:3], 0), None]),
}
x, weight, y = torch.randn(64, 32), torch.randn(16, 32), torch.arange(64) % 16
cast = (x.bfloat16() @ weight.bfloat16().t())
# cross_entropy asks log_softmax for its own dtype, which autocast leaves it; the rest is in float32.
loss = torch.nn.functional.nll_loss(cast.log_softmax(1).float(), y)
UNDER_AUTOCAST = {
    41: ("torch.nn.functional.linear", (x, weight), (cast,)),
    42: ("torch.nn.functional.linear", (x, weight), (cast * 1.05,)),
    43: ("torch.nn.functional.cross_entropy", (cast, y), (loss,)),
    44: ("torch.nn.functional.cross_entropy", (cast, y), (loss * 1.05,)),
}


def wrong_at(t, place, factor=1.05):
    t = t.clone()
    t[place] = t[place] * factor
    return t


def so_far(t):
    """Each sum rounded before the next number is added."""
    sums = [t[0]]
    for row in t[1:]:
        sums.append(sums[-1] + row)
    return torch.stack(sums)


roundoff = 2.0**-24
numbers, matrix, points = torch.randint(-9, 9, (6, 8)), torch.randn(9, 9), torch.randn(64, dtype=torch.complex64)
spectrum = torch.fft.fft(numbers.double())
noisy = (spectrum + torch.randn(6, 8) * roundoff * spectrum.abs().max()).to(torch.complex64)
values = torch.linalg.svdvals(matrix.double())
angles = points.to(torch.complex128).atan()
turned_by = (angles * (1 + 0.7j * roundoff)).to(torch.complex64)
steps = torch.randn(6, 32).bfloat16()
equal = torch.tensor([[3, 3, 5, 5, 7], [1, 2, 2, 1, 0]])
rows = torch.randn(4, 16).half()
mean, rstd = rows.float().mean(1, keepdim=True), (rows.float().var(1, keepdim=True, unbiased=False) + 1e-5).rsqrt()
norm = (rows, [16], None, None, 1e-5)
ON_DEVICES = {
    51: ("torch.fft.fft", (numbers,), (noisy,)),
    52: ("torch.fft.fft", (numbers,), (wrong_at(noisy, (2, 3)),)),
    53: ("torch.linalg.svdvals", (matrix,), ((values + 9 * roundoff * values[0]).float(),)),
    54: ("torch.linalg.svdvals", (matrix,), (wrong_at(values, 4, 1.001).float(),)),
    55: ("torch.atan", (points,), (turned_by,)),
    56: ("torch.atan", (points,), (wrong_at(turned_by, 7),)),
    57: ("torch.cumsum", (steps, 0), (so_far(steps),)),
    58: ("torch.cumsum", (steps, 0), (wrong_at(so_far(steps), (3, 5), 1.5),)),
    59: ("torch.mode", (equal,), ((torch.tensor([5, 2]), torch.tensor([3, 2])),)),
    60: ("torch.mode", (equal,), ((torch.tensor([7, 2]), torch.tensor([4, 2])),)),
    61: ("aten::native_layer_norm", norm, (((rows.float() - mean) * rstd).half(), mean, rstd)),
    62: ("aten::native_layer_norm", norm, (((rows.float() - mean) * rstd).half(), mean, rstd * 1.01)),
}


def save(n, name, args, results, written=None, device="cpu", **about):
    folder = os.path.join(sys.argv[1], f"op_tools_results/op_capture_results/{name}/7/{n}/2026-01-01-00-00-00")
    os.makedirs(folder)
    torch.serialization.location_tag = lambda storage: device
    for part, given, named in (("input", args, {}), ("output", results, written or {})):
        torch.save({"name": name, "args": given, "kwargs": named, "identifier": f"{n}/{part}"}, f"{folder}/{part}.pth")
        with open(f"{folder}/{part}.pth.json", "w", encoding="utf-8") as f:
            json.dump({"op": name, **about}, f)
    if n % 2 == 0:
        print(n)


for n, (name, *call) in CALLS.items():
    if hasattr(torch.ops.aten, name):
        save(n, f"aten::{name}", *call)
if hasattr(torch, "get_autocast_dtype"):  # where what autocast of a device does can be seen without it
    for n, call in UNDER_AUTOCAST.items():
        save(n, *call, device="cuda:0", autocast={"cuda": "bfloat16"})
for n, call in ON_DEVICES.items():
    save(n, *call, device="cuda:0")
