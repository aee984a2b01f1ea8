"""What computes on the CPU, in any dtype, what kernels of one library or dtype alone compute: their reference. The functions
take what these operators do (native_functions.yaml of PyTorch 2.13), and give their results, but those that only the
operator's own backward reads (PRIVATE in functions.py) and that are not to be had here."""
import torch

from ditrace_runner import attention_backward
from ditrace_runner.probe import HALVES


def batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    return torch.native_batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon)


def cudnn_batch_norm(*args, **kwargs):
    return (*batch_norm(*args, **kwargs), None)


def batch_norm_backward(input, grad_output, weight, running_mean, running_var, save_mean, save_var, epsilon, reserveSpace=None):
    return torch.ops.aten.native_batch_norm_backward(grad_output, input, weight, running_mean, running_var, save_mean, save_var,
                                                     True, epsilon, [True] * 3)


def convolution(self, weight, bias, padding, stride, dilation, groups):
    return torch.convolution(self, weight, bias, stride, padding, dilation, False, [0] * len(padding), groups)


def unscale(self, found_inf, inv_scale):
    """The gradients are multiplied, and whether one was not finite before is kept."""
    for t in self:
        found_inf.masked_fill_(~torch.isfinite(t).all(), 1)
        t.mul_(inv_scale)


def update_scale(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    if bool(found_inf):
        self.mul_(scale_backoff_factor)
        growth_tracker.zero_()
    elif int(growth_tracker) + 1 == growth_interval:
        grown = self * scale_growth_factor
        self.copy_(torch.where(torch.isfinite(grown), grown, self))
        growth_tracker.zero_()
    else:
        growth_tracker.add_(1)
    return self


def looked_up(query, key, value, mask, is_causal, scale):
    """Attention by its formula, half types in float32."""
    dtype = query.dtype
    if dtype in HALVES:
        query, key, value = query.float(), key.float(), value.float()
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -float("inf")) if mask.dtype == torch.bool else scores + mask
    return (scores.softmax(-1) @ value).to(dtype)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """PyTorch's own, unless the program has turned off all that the CPU could use (torch.nn.attention.sdpa_kernel)."""
    heads = query.shape[-3] // key.shape[-3] if query.dim() > 2 else 1
    key, value = (t if heads == 1 else t.repeat_interleave(heads, -3) for t in (key, value))
    scaled = {} if scale is None else {"scale": scale}  # which 2.0 does not know
    try:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **scaled)
    except RuntimeError as e:
        if dropout_p or "viable backend" not in str(e):
            raise
    return looked_up(query, key, value, attn_mask, is_causal, scale)


def fused(query, key, value, mask, is_causal, scale, results):
    return (attention(query, key, value, mask, 0.0, is_causal, scale), *[None] * (results - 1))


def flash_attention(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    return fused(query, key, value, None, is_causal, scale, 9)


def efficient_attention(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    return fused(query, key, value, attn_bias, is_causal, scale, 4)


def cudnn_attention(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, return_debug_mask=False,
                    *, scale=None):
    return fused(query, key, value, attn_bias, is_causal, scale, 9)


PORTABLE = {
    "cudnn_batch_norm": cudnn_batch_norm,
    "cudnn_batch_norm_backward": batch_norm_backward,
    "miopen_batch_norm": batch_norm,
    "miopen_batch_norm_backward": batch_norm_backward,
    "mkldnn_convolution": convolution,
    "_amp_foreach_non_finite_check_and_unscale_": unscale,
    "_amp_update_scale_": update_scale,
    "scaled_dot_product_attention": attention,
    "_scaled_dot_product_flash_attention": flash_attention,
    "_scaled_dot_product_efficient_attention": efficient_attention,
    "_scaled_dot_product_cudnn_attention": cudnn_attention,
    **{base: attention_backward.gradients_of(base) for base in attention_backward.PLACES},
}
