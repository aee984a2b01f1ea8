"""What kernels of devices may round where the dtype is more precise: PyTorch's settings allow it, or every such kernel does."""
import sys

import torch

from ditrace_runner import attention
from ditrace_runner.call import walk
from ditrace_runner.load import LOCATIONS
from ditrace_runner.memory import is_short
from ditrace_runner.probe import HALVES, INNER, ROUNDOFF

CONVOLUTIONS = set("""conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution _convolution
    conv_tbc cudnn_convolution cudnn_convolution_transpose cudnn_convolution_relu cudnn_convolution_add_relu npu_conv2d
    convolution_overrideable convolution_backward convolution_backward_overrideable npu_convolution""".split())
RECURRENT = set("lstm gru rnn_tanh rnn_relu _cudnn_rnn _cudnn_rnn_backward _thnn_fused_lstm_cell".split())
CELLS = set("lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split())
MATRICES = set("linear matmul mm bmm addmm addbmm baddbmm addmv mv dot vdot inner".split())
PRODUCTS = MATRICES | set("""tensordot einsum bilinear multi_dot
    chain_matmul __matmul__ __rmatmul__ multi_head_attention_forward _native_multi_head_attention cdist _euclidean_dist
    matrix_power matrix_exp cov corrcoef _addmm_activation linear_backward matmul_backward _trilinear vecdot
    _transformer_encoder_layer_fwd npu_linear spmm hspmm smm dsmm hsmm saddmm""".split())
WITH_BIAS = CONVOLUTIONS | {"linear"}
SINGLES = (torch.float32, torch.complex64)
TF32 = 2.0**-11  # roundoff of its numbers; a kernel may also cut off what they do not hold, which is twice as much
OF_CUT = 6  # roundoffs of TF32 that a result may be off by: two inputs that are cut off are four
OF_PARTS = 1.5  # roundoffs of half types, of the root of the sum of the squares of what is added up in parts
OF_FAST = 8  # roundoffs that float32 products of tensor cores are too small by together, made of three parts that are cut off each
OF_ORDER = 4  # roundoffs of float32 that the sums in attention may be off by, whose difference may be zero
OF_SCALE = 4.2  # the most that all results of such a product are off by together, and what rounding is besides


def get(path):
    """The value of a setting by its name; None: this PyTorch has none, or refuses to tell."""
    module, *rest = path.split(".")
    found = sys.modules.get(module)
    try:
        for name in rest:
            found = getattr(found, name)
    except Exception:  # an AssertionError for a name it does not know, a RuntimeError where old and new settings are mixed
        return None
    return found


def precise(operation):
    """(setting, its value) of PyTorch from 2.9 on, in which the others and set_float32_matmul_precision end."""
    value = getattr(torch._C, "_get_fp32_precision_getter", None)
    if value is None:
        return None
    place = "cuda.matmul" if operation == "matmul" else f"cudnn.{operation}"
    try:
        return f"torch.backends.{place}.fp32_precision", value("cuda", operation)
    except Exception:  # as above
        return None


def tf32_setting(kind, operation):
    """The setting that allows TF32 (of NPUs HF32) for "conv", "rnn" or "matmul" now; None: none does."""
    if kind == "npu":
        name = f"torch_npu.npu.{'matmul' if operation == 'matmul' else 'conv'}.allow_hf32"
        return name if get(name) else None
    name = "torch.backends.cuda.matmul.allow_tf32" if operation == "matmul" else "torch.backends.cudnn.allow_tf32"
    new, old = precise(operation), get(name)
    if new is None:
        return name if old else None
    return (name if old else new[0]) if new[1] == "tf32" else None


def operations_of(base):
    """Which settings decide: where cuDNN does not take it, a convolution is a product of matrices."""
    if base in CONVOLUTIONS:
        return ("conv", "matmul")
    if base in RECURRENT:
        return ("rnn", "matmul")
    return ("matmul",) if base in PRODUCTS | CELLS or attention.is_one(base) else ()


def cut_off(t, dtype):
    """As inputs get into the tensor cores: without the bits that TF32 does not have. `t`: float64."""
    if dtype not in SINGLES:
        return t
    flat = torch.view_as_real(t) if t.is_complex() else t
    cut = (flat.float().contiguous().view(torch.int32) & -(1 << 13)).view(torch.float32).to(flat.dtype)
    return torch.view_as_complex(cut) if t.is_complex() else cut


def smooth(moves):
    """An estimate of few runs, no smaller by chance than rows and columns of a product have it."""
    if moves.dim() < 2:
        return moves
    rows = moves.reshape(-1, moves.shape[-1]).pow(2)
    both = rows.mean(0, keepdim=True) * rows.mean(1, keepdim=True) / rows.mean().clamp_min(1e-300)
    return torch.maximum(moves, both.sqrt().reshape(moves.shape))


def tensors_named(capture, place, name):
    x = capture.kwargs.get(name, capture.args[place] if len(capture.args) > place else None)
    return x if isinstance(x, torch.Tensor) else None


def bias_of(capture, r):
    """What is added to each result, shaped as they are; None: nothing, or not known."""
    weight, bias = tensors_named(capture, 1, "weight"), tensors_named(capture, 2, "bias")
    behind = {"linear": 0}.get(capture.base, weight.dim() - 2 if weight is not None else -1)
    if bias is None or bias.dim() != 1 or not 0 <= behind < r.dim() or r.shape[r.dim() - behind - 1] != bias.numel():
        return None
    return bias.detach().to(r.dtype).reshape(-1, *[1] * behind)


class Allowed:
    """For the results of one call."""

    def __init__(self, capture, device, is_known):
        """is_known: are the settings of this process those of the call? Those of a captured one are not in the capture."""
        self.capture, self.kind, self.is_known = capture, device.split(":")[0], is_known
        self.base = capture.base.rstrip("_") if not capture.base.startswith("__") else capture.base
        self.operations = operations_of(self.base) if self.kind in ("cuda", "npu") else ()
        dtypes = {t.dtype for t in capture.tensors}
        self.tf32 = self.why_tf32() if self.operations and dtypes & set(SINGLES) else None
        self.errors = {}  # role: those of attention

    @staticmethod
    def unknown(what):
        return f"{what} (the capture does not say whether it was)"

    def why_tf32(self):
        name = "HF32" if self.kind == "npu" else "TF32"
        if not self.is_known:
            return self.unknown(name)
        found = [s for s in (tf32_setting(self.kind, o) for o in self.operations) if s]
        return f"{name} ({found[0]})" if found else None

    def knows(self, dtypes):
        """Is all that results of these may be off by known of the device, so that the CPU's kernel does not tell it?"""
        return bool(self.operations) and self.base in CONVOLUTIONS | MATRICES and not dtypes.isdisjoint(HALVES)

    def products(self):
        """How many roundings of inputs one result may have behind it: of a chain of products or steps all."""
        if self.base in RECURRENT | CELLS:
            return 2 * max([t.shape[0] for t in self.capture.tensors if t.dim() == 3] or [1]) + 2
        if self.base.startswith(("matrix_", "_transformer")) or "multi_head" in self.base:
            return 8
        return 1 if attention.is_one(self.base) else max(1, len(self.capture.tensors) - 1 - (self.base in WITH_BIAS and len(
            self.capture.tensors) > 2) - self.base.startswith(("add", "badd")))

    def why_halves(self, dtype):
        """Why parts of a sum may be rounded to a half type before they are added up; None: they may not."""
        if "matmul" not in self.operations or self.base in CONVOLUTIONS | RECURRENT or self.kind != "cuda":
            return None
        short = "fp16" if dtype == torch.float16 else "bf16"
        name = f"torch.backends.cuda.matmul.allow_{short}_reduced_precision_reduction"
        what = "parts of sums rounded"
        if not self.is_known:
            return self.unknown(what)
        value = get(name)
        value = value[0] if isinstance(value, tuple) else value
        return None if value is not None and not value else f"{what} ({name})"

    def of(self, judge, a, r, probe, cut):
        """(why, what each element may be off by besides, what all may be together in roundoffs) of a result; `cut`: the
        reference with inputs that were cut off. None: nothing is allowed."""
        if not self.operations or not probe or judge.role == "grad" and r.dim() < 2 and self.base in WITH_BIAS:
            return None
        raw, size, whys, more, common = probe.allowance / probe.factor, r.abs(), [], 0, 0.0
        size = torch.view_as_real(r).abs() if r.is_complex() else size
        size = torch.nan_to_num(size, nan=0.0, posinf=0.0, neginf=0.0)
        if a.dtype in SINGLES and self.tf32:
            n = self.products()
            whys.append(self.tf32)
            more = smooth(raw) * (2 * TF32 / INNER) + OF_CUT * n * TF32 * size
            if cut is not None:
                off = torch.view_as_real(cut - r).abs() if r.is_complex() else (cut - r).abs()
                more = more + 1.5 * torch.nan_to_num(off, nan=0.0, posinf=0.0, neginf=0.0)
            common = OF_SCALE * n * TF32 / ROUNDOFF[a.dtype]
        elif a.dtype in HALVES:
            more, whys = self.of_halves(a.dtype, r, size, raw, probe, judge.role)
        if attention.is_one(self.base) and a.dtype in (*HALVES, torch.float32):
            u = ROUNDOFF[a.dtype] if a.dtype in HALVES else 2 * TF32 if self.tf32 else OF_ORDER * INNER
            off = self.attention_errors(judge, r, u)
            if off is not None:
                is_exact = a.dtype == torch.float32 and not self.tf32
                more, common = more + off, common or (OF_FAST if is_exact else float(a.dtype in HALVES))
                whys.append("sums of attention in any order" if is_exact else "probabilities of attention and their gradients rounded")
        return ("allowed: " + ", ".join(whys), more.contiguous(), common) if whys else None

    def of_halves(self, dtype, r, size, raw, probe, role):
        u, whys, more = ROUNDOFF[dtype], [], 0
        why = None if attention.is_one(self.base) else self.why_halves(dtype)
        if why:
            whys.append(why)
            more = OF_PARTS * u / INNER * smooth(raw)
        adds = "torch.backends.cuda.matmul.allow_fp16_accumulation"
        if dtype == torch.float16 and self.is_known and "matmul" in self.operations and get(adds):
            whys.append(f"sums in float16 ({adds})")
            more = u / INNER * probe.allowance + u * probe.factor * size
        bias = bias_of(self.capture, r) if role == "output" and self.base in WITH_BIAS else None
        if bias is not None:
            whys.append("rounding before the bias is added")
            more = more + u * torch.nan_to_num((r - bias).abs(), nan=0.0, posinf=0.0, neginf=0.0)
        return more, whys

    def attention_errors(self, judge, r, u):
        if judge.role not in self.errors:
            given = judge.given if judge.role == "grad" else None
            try:
                self.errors[judge.role] = attention.errors(self.capture, given, u)
            except RuntimeError as e:  # shapes that broadcast in a way not known here
                if is_short(e):
                    raise
                self.errors[judge.role] = {}
        errors = self.errors[judge.role]
        if judge.role == "output":
            results = enumerate(t for _, t in walk(judge.reference.results))
            found = errors.get("output") if "output" in errors else next(
                (errors.get(i) for i, t in results if t is not None and t.shape == r.shape and torch.equal(t, r)), None)
        else:
            leaves = zip(self.capture.leaves(), judge.reference.input_grads)
            found = next((errors.get(id(t)) for (_, t), (_, g) in leaves if g is not None and g.shape == r.shape and
                          torch.equal(torch.nan_to_num(g), torch.nan_to_num(r))), None)
        return found if found is not None and found.shape == r.shape else None


def device_of(results, of_request):
    """The device that computed these: where captured ones came from."""
    for t in results:
        return getattr(t, LOCATIONS, str(t.device)) if of_request == "captured" else str(t.device)
    return "cpu"
