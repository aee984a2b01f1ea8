"""What fused attention rounds. Its kernels give the second product, and those of the backward, their probabilities P and
gradients dS in the dtype of the inputs, and take the sum of dO * O from the rounded result (FlashAttention-2, arXiv:2307.08691,
algorithm 2, and its kernels; cuDNN's and the memory-efficient ones, too). Errors are the root of sums of squares, since
such roundings are independent."""
import torch

from ditrace_runner.attention_backward import PLACES, Backward
from ditrace_runner.probe import INNER

LEAST = 2.0**-25  # half of the spacing of float16's subnormal numbers
ROWSUM = 2  # roundoffs of each part of the sum of dO * O, since all gradients of a row share it
OF_SUM = 4  # roundoffs of float32 that this sum may be off by where its O is given


def is_one(base):
    return base == "scaled_dot_product_attention" or base in PLACES or (
        base.startswith("_scaled_dot_product_") and not base.endswith("_backward"))


def clean(t):
    return torch.nan_to_num(t, nan=0.0, posinf=0.0, neginf=0.0)


def rounded(t, u, dtype):
    """The squares of what t is off by after rounding, which leaves no digits of what is far too small for float16."""
    least = t.abs().clamp_max(LEAST) if dtype == torch.float16 else 0 * t
    return torch.maximum((u * t).abs(), least).square()


def squares_to(t, shape):
    """Of squares of errors, those of what was broadcast or shared by heads (grouped-query attention), summed."""
    if t.dim() == len(shape) and t.dim() > 2 and shape[-3] and t.shape[-3] != shape[-3] != 1 and t.shape[-3] % shape[-3] == 0:
        t = t.reshape(*t.shape[:-3], shape[-3], -1, *t.shape[-2:]).sum(-3)
    return t.sum_to_size(shape)


def arguments(capture):
    """(query, key, value, mask, whether causal, scale); None: not those of a call that is known here."""
    given, kwargs = list(capture.args), dict(capture.kwargs)
    given += [None] * (6 - len(given))
    q, k, v = (kwargs.get(n, given[i]) for i, n in enumerate(("query", "key", "value")))
    mask, causal = kwargs.get("attn_mask", kwargs.get("attn_bias")), kwargs.get("is_causal", False)
    mask = next((x for x in given[3:] if isinstance(x, torch.Tensor)), mask)
    plain = [x for x in given[3:6] if isinstance(x, bool)]
    if capture.base.startswith("_scaled_dot_product_efficient") or "cudnn" in capture.base:
        plain = plain[1:]  # after compute_log_sumexp; is_causal comes last
        plain = [x for x in capture.args[6:7] if isinstance(x, bool)] or plain
    causal = plain[0] if plain else causal
    if not all(isinstance(t, torch.Tensor) and t.dim() >= 2 for t in (q, k, v)):
        return None
    scale = kwargs.get("scale")
    return q, k, v, mask, causal, q.shape[-1]**-0.5 if scale is None else scale


def widened(t, heads):
    """With the heads that the queries have."""
    t = t.detach().double()
    if t.dim() > 2 and t.shape[-3] not in (1, heads) and heads % t.shape[-3] == 0:
        t = t.repeat_interleave(heads // t.shape[-3], -3)
    return t


def probabilities(q, k, mask, causal, scale):
    scores = scale * (q @ k.transpose(-1, -2))
    if isinstance(mask, torch.Tensor):
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask.detach().double()
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    return clean(scores.softmax(-1))


def errors_of_backward(capture, u):
    """{place of a result of the operator that is the backward: the same}. The sum of dO * O is of the O that it is given."""
    b = Backward(capture.base, capture.args, capture.kwargs)
    p, ds = b.double().probabilities_and_gradients()
    g, o = b.grad.detach().double(), b.out.detach().double()
    rowsum = OF_SUM * INNER * (g * o).pow(2).sum(-1, keepdim=True).sqrt()
    of_p, of_ds = (rounded(t, u, b.query.dtype) for t in (p, ds))
    squares = b.products(of_ds + (p * rowsum).pow(2), of_p, torch.square, b.scale**2)
    of_rows = b.products(rowsum * p, p, lambda t: t, b.scale)[0].square()  # all of a row err alike
    return {i: clean(s + of_rows if i == 0 else s).sqrt() for i, s in enumerate(squares) if s is not None}


def errors(capture, given, u):
    """{"output" or the id of an input: how far off each element of the result, or of its gradient, may be}, where P, dS and
    the result are rounded with the roundoff `u`."""
    if capture.base in PLACES:
        return errors_of_backward(capture, u)
    known = arguments(capture)
    if known is None:
        return {}
    q0, k0, v0, mask, causal, scale = known
    heads = q0.shape[-3] if q0.dim() > 2 else 1
    q, k, v = (widened(t, heads) for t in (q0, k0, v0))
    p = probabilities(q, k, mask, causal, scale)
    of_p = rounded(p, u, q0.dtype)
    found = {"output": (of_p @ v.pow(2)).sqrt()}
    g = next((t for t in given or () if isinstance(t, torch.Tensor)), None)
    if g is None or g.shape != (p @ v).shape:
        return found
    g, o = g.detach().double(), p @ v
    rowsum = ROWSUM * u * (g * o).pow(2).sum(-1, keepdim=True).sqrt()
    ds = p * (g @ v.transpose(-1, -2) - (g * o).sum(-1, keepdim=True))
    own = rounded(ds, u, q0.dtype)
    squares = [(q0, scale**2 * (own @ k.pow(2) + (rowsum * (p @ k)).pow(2))),
               (k0, scale**2 * ((own + (p * rowsum).pow(2)).transpose(-1, -2) @ q.pow(2))),
               (v0, of_p.transpose(-1, -2) @ g.pow(2))]
    if isinstance(mask, torch.Tensor) and mask.dtype != torch.bool:
        squares.append((mask, own + (p * rowsum).pow(2)))
    for t, s in squares:
        off = squares_to(clean(s), t.shape).sqrt()
        found[id(t)] = found[id(t)] + off if id(t) in found else off
    return found
