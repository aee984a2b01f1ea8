"""Calls the operators of PyTorch's own database of test inputs: op_db.py STEP FIRST [SAMPLES [DTYPE...]]. Every STEP-th
operator, from number FIRST on, and those of ALWAYS, with so many samples of each dtype; those of float32 with the backward.
Says what fails."""
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

DTYPES = "float32 int64 bool complex64 float16 bfloat16".split()
# What draws numbers, what takes the memory that it finds, and what runs for many seconds.
LEFT_OUT = ("empty", "new_empty", "rand", "normal", "bernoulli", "multinomial", "dropout", "uniform", "cauchy", "exponential",
            "geometric", "log_normal", "svd_lowrank", "pca_lowrank", "rrelu", "fractional_max_pool")
# Whose algorithm depends on the grad mode, or whose results are not all defined.
ALWAYS = "linalg.cond linalg.svdvals nn.functional.embedding_bag nn.functional.ctc_loss result_type".split()


def tensors(x):
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (tuple, list)):
        for v in x:
            yield from tensors(v)


def call(op, sample, wants_grad):
    result = op(sample.input, *sample.args, **sample.kwargs)
    if wants_grad:
        outs = [t for t in tensors(result) if t.requires_grad]
        if outs:
            torch.autograd.backward(outs, [torch.ones_like(t) for t in outs])


def walk(op, dtype, most):
    wants_grad = dtype == torch.float32 and op.supports_autograd
    for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=wants_grad)):
        if i == most:
            return
        try:
            call(op, sample, wants_grad)
        except Exception as e:
            print("fails:", op.name, op.variant_test_name, dtype, i, type(e).__name__, flush=True)


def main():
    step, first = int(sys.argv[1]), int(sys.argv[2])
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    dtypes = [getattr(torch, d) for d in sys.argv[4:] or DTYPES]
    ops = [op for i, op in enumerate(op_db) if i % step == first % step or op.name in ALWAYS]
    for op in ops:
        if any(word in op.name for word in LEFT_OUT):
            continue
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            torch.manual_seed(7)
            try:
                walk(op, dtype, most)
            except Exception as e:
                print("no samples:", op.name, dtype, type(e).__name__, flush=True)
    print("operators:", len(ops), flush=True)


main()
