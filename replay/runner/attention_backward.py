"""The backward of fused attention, by its formulas (FlashAttention-2, arXiv:2307.08691, algorithm 2): from the results of the
forward that its kernels are given, P = exp(S - logsumexp) and dS = P * (dO V^T - rowsum(dO * O))."""
import torch

from ditrace_runner.errors import Refused, Skipped

# Where each argument is (native_functions.yaml of PyTorch 2.11 to 2.13); the others are keywords.
COMMON = "grad query key value"
FLASH = f"{COMMON} out logsumexp cum_seq_q cum_seq_k max_q max_k dropout_p is_causal philox_seed philox_offset"
CUDNN = f"{COMMON} out logsumexp philox_seed philox_offset bias cum_seq_q cum_seq_k max_q max_k dropout_p is_causal"
PLACES = {
    "_scaled_dot_product_flash_attention_backward": FLASH,
    "_scaled_dot_product_efficient_attention_backward":
        f"{COMMON} bias out logsumexp philox_seed philox_offset dropout_p mask is_causal",
    "_scaled_dot_product_cudnn_attention_backward": CUDNN,
    "_flash_attention_backward": FLASH,
    "_efficient_attention_backward": f"{COMMON} bias out cum_seq_q cum_seq_k max_q max_k logsumexp dropout_p philox_seed "
                                     "philox_offset custom_mask_type wants_bias",
    "_cudnn_attention_backward": CUDNN,
}
NAMES = {"grad_out": "grad", "grad_out_": "grad", "attn_bias": "bias", "cu_seqlens_q": "cum_seq_q", "cu_seqlens_k": "cum_seq_k",
         "grad_input_mask": "mask", "bias_requires_grad": "wants_bias"}
INNER_BACKWARDS = {name for name in PLACES if not name.startswith("_scaled")}
SEQUENCE_FIRST = INNER_BACKWARDS - {"_cudnn_attention_backward"}  # [batch, length, heads, size]
TOP_LEFT, BOTTOM_RIGHT = 1, 2  # custom_mask_type
NEAR = 0.05  # share that a logsumexp may be off by whose products were in TF32


def is_there(x):
    return isinstance(x, torch.Tensor) and x.numel() > 0


def turned(t):
    return t.transpose(1, 2)


class Backward:
    """One call, with its tensors as [batch, heads, length, size]."""

    def __init__(self, base, args, kwargs):
        self.base = base
        given = dict(zip(PLACES[base].split(), args))
        given.update((NAMES.get(k, k), v) for k, v in kwargs.items())
        self.given = given
        self.check()
        self.grad, self.query, self.key, self.value, self.out = (
            turned(given[n]) if base in SEQUENCE_FIRST else given[n] for n in ("grad", "query", "key", "value", "out"))
        self.bias = given.get("bias") if is_there(given.get("bias")) else None
        scale = given.get("scale")
        self.scale = self.query.shape[-1]**-0.5 if scale is None else scale
        self.heads, self.shared = self.query.shape[1], self.query.shape[1] // self.key.shape[1]
        self.diagonal = self.diagonal_of_mask()
        self.compute = torch.float64 if self.query.dtype == torch.float64 else torch.float32

    def check(self):
        given = self.given
        if given.get("dropout_p"):
            raise Skipped("it had a dropout inside, and what that left out only its own kernel can tell")
        if is_there(given.get("cum_seq_q")) or is_there(given.get("cum_seq_k")) or any(
                getattr(given[n], "is_nested", False) or given[n].dim() != 4 for n in ("query", "key", "value")):
            raise Refused("there is no reference: its tensors hold sequences of several lengths")
        for name in ("window_size", "window_size_left", "window_size_right"):
            if given.get(name) not in (None, -1):
                raise Refused(f"there is no reference: attention in a window ({name})")

    def diagonal_of_mask(self):
        """Up to which diagonal keys are seen; None: all are."""
        longer = self.key.shape[2] - self.query.shape[2]
        kind = self.given.get("custom_mask_type", 0)
        if kind in (TOP_LEFT, BOTTOM_RIGHT):
            return longer if kind == BOTTOM_RIGHT else 0
        if kind:
            raise Refused(f"there is no reference: custom_mask_type={kind} is not known")
        if self.given.get("is_causal") and longer and "flash" in self.base:
            raise Refused("there is no reference: which keys is_causal hides from so many queries depends on the kernel's version")
        return 0 if self.given.get("is_causal") else None

    def double(self):
        self.compute = torch.float64
        return self

    def wide(self, t):
        return t.detach().to(self.compute)

    def for_heads(self, t):
        return t if self.shared == 1 else t.repeat_interleave(self.shared, 1)

    def of_heads(self, t):
        """Summed over the queries' heads that share a key."""
        return t if self.shared == 1 else t.reshape(t.shape[0], -1, self.shared, *t.shape[2:]).sum(2)

    def logsumexp(self, own):
        """As it was given, [batch, heads, length, 1]; kernels may have rounded the length up."""
        given = self.wide(self.given["logsumexp"])
        given = given.squeeze(-1) if given.dim() == 4 else given
        if given.dim() != 3 or given.shape[:2] != own.shape[:2] or given.shape[2] < own.shape[2]:
            raise Refused(f"there is no reference: a logsumexp of the shape {list(given.shape)} is not known")
        given = given[..., :own.shape[2], None]
        seen = torch.isfinite(own)
        if bool((seen & ~((given - own).abs() <= NEAR * (1 + own.abs()))).any()):
            raise Refused("there is no reference: the logsumexp that it was given is not that of its query and key")
        return torch.where(seen, given, torch.zeros_like(own))

    def probabilities_and_gradients(self):
        """P, and dS before the scale."""
        q, k, v, g = (self.wide(t) for t in (self.query, self.key, self.value, self.grad))
        k, v = self.for_heads(k), self.for_heads(v)
        scores = self.scale * (q @ k.transpose(-1, -2))
        if self.bias is not None:
            scores = scores + self.wide(self.bias)
        if self.diagonal is not None:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(self.diagonal)
            scores = scores.masked_fill(~seen, float("-inf"))
        p = torch.exp(scores - self.logsumexp(scores.logsumexp(-1, keepdim=True)))
        return p, p * (g @ v.transpose(-1, -2) - (g * self.wide(self.out)).sum(-1, keepdim=True))

    def products(self, ds, p, part, scale):
        """The gradients of query, key, value and bias (None: nobody wants it), as the operator lays them out."""
        q, k, g = (part(self.wide(t)) for t in (self.query, self.key, self.grad))
        grads = [scale * (ds @ self.for_heads(k)), self.of_heads(scale * (ds.transpose(-1, -2) @ q)),
                 self.of_heads(p.transpose(-1, -2) @ g)]
        grads = [turned(t) for t in grads] if self.base in SEQUENCE_FIRST else grads
        return grads + ([ds.sum_to_size(self.bias.shape) if self.wants_bias() else None] if "efficient" in self.base else [])

    def wants_bias(self):
        mask = self.given.get("mask")
        return self.bias is not None and bool(self.given.get("wants_bias") if mask is None else mask[3])


def gradients_of(base):
    """What the operator of that name does."""
    def backward(*args, **kwargs):
        b = Backward(base, args, kwargs)
        p, ds = b.probabilities_and_gradients()
        return tuple(t if t is None else t.to(b.query.dtype) for t in b.products(ds, p, lambda t: t, b.scale))
    return backward
