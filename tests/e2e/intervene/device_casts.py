#!/usr/bin/env python3
"""What autocast of CUDA does to functions, as replay/runner/casts.py finds it: device_casts.py MODES RUNNER, the two
folders with its modules. A fake device has its dispatch, but no numbers, so that no GPU is needed. Prints a line for each function."""

import sys
import types
import unittest.mock
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402


class Native(types.ModuleType):
    def __getattr__(self, name):
        return unittest.mock.MagicMock()


def tensors_in(*nests):
    return [x for x in torch.utils._pytree.tree_leaves(nests) if isinstance(x, torch.Tensor)]


def package(name, folder):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]


package("ditrace_modes", sys.argv[1])
package("ditrace_runner", sys.argv[2])
for name in ("native", "link"):
    sys.modules[f"ditrace_modes.{name}"] = Native(f"ditrace_modes.{name}")
sys.modules["ditrace_modes.native"].tensors_in = tensors_in

from ditrace_modes import autocast  # noqa: E402


autocast.states_of = lambda tensors: []


def show(name, func, *args, **kwargs):
    tensors = tensors_in(args, kwargs)
    try:
        found = autocast.found_of(types.SimpleNamespace(func=func), tensors, args, kwargs)
        casts = found.of(tensors)
        print(name, *(str(casts.get(id(t)))[-8:] for t in tensors), *["forward"] * (not found.whole), *found.narrow or ())
    except autocast.Unchanged as e:
        print(name, e)


torch.set_autocast_enabled("cuda", True)
torch.set_autocast_dtype("cuda", torch.bfloat16)
with FakeTensorMode(allow_non_fake_inputs=True):
    x, w = torch.randn(4, 8, device="cuda"), torch.randn(5, 8, device="cuda", requires_grad=True)
    h, y = x.bfloat16(), torch.zeros(4, dtype=torch.long, device="cuda")
    show("linear", F.linear, x, w)
    show("layer_norm", F.layer_norm, h, (8,))
    show("pow", torch.Tensor.pow, h, 2)
    show("gelu", F.gelu, h)
    show("mse_loss", F.mse_loss, h, x)
    show("float", torch.Tensor.float, h)
    show("sum", torch.Tensor.sum, h)
    show("sum of float64", torch.Tensor.sum, h, dtype=torch.float64)
    show("cross_entropy", F.cross_entropy, h, y)
    show("on the CPU", F.linear, torch.ones(2, 2), torch.ones(2, 2))
