"""Functions of PyTorch by what they do, and what of PyTorch the library needs."""
import types

import torch

from ditrace_runner import autocast_state
from ditrace_runner.functions import FACTORIES

VIEWS = set("""view reshape transpose permute expand expand_as t T mT H mH movedim moveaxis swapaxes swapdims chunk
    split split_with_sizes unbind narrow squeeze unsqueeze flatten ravel unflatten diagonal view_as view_as_real
    view_as_complex as_strided select slice unfold real imag conj adjoint hsplit vsplit dsplit tensor_split
    broadcast_to expand alias contiguous squeeze_ unsqueeze_ transpose_ t_ swapaxes_ swapdims_ as_strided_
    _unsafe_view""".split())
MAKE = FACTORIES | set("""zeros_like ones_like full_like empty_like rand_like randn_like randint_like new_zeros new_ones
    new_full new_empty new_empty_strided new_tensor empty_permuted""".split())
LATER = ("lazy", "xla")  # devices that compute when a value is asked for
PLAIN = (torch.Tensor, torch.nn.Parameter)
# As torch.ops has them. A program may call them itself; exported modules call nothing else.
OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)

# What the library looks calls through with (tracer/shim/extension).
TENSOR, PARAMETER, SIZE, STRIDED = torch.Tensor, torch.nn.Parameter, torch.Size, torch.strided
DTYPE, DEVICE, GENERATOR, CPU = torch.dtype, torch.device, torch.Generator, torch.device("cpu")
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
TO, CLONE, COPY, DATA_PTR = torch.Tensor.to, torch.Tensor.clone, {"copy": True}, torch.Tensor.data_ptr
STORAGE_OFFSET, ELEMENT_SIZE, NUMEL = torch.Tensor.storage_offset, torch.Tensor.element_size, torch.Tensor.numel
STORAGE = torch.Tensor.untyped_storage if hasattr(torch.Tensor, "untyped_storage") else torch.Tensor._storage  # before 2.0
GET_STATE, SET_STATE = torch.default_generator.get_state, torch.default_generator.set_state
STATE_BYTES = GET_STATE().numel()
GRAD, SET_GRAD, DISPATCHING = torch.is_grad_enabled, torch._C._set_grad_enabled, torch._C._len_torch_dispatch_stack
AUTOCAST, AUTOCAST_CPU = autocast_state.ANY, autocast_state.CPU
TRACING_STATE, TORCH_NAMES = torch._C._get_tracing_state, vars(torch)
TO_DLPACK, UINT8, IS_CONJ, IS_NEG = torch._C._to_dlpack, torch.uint8, torch.Tensor.is_conj, torch.Tensor.is_neg
# Which a mode of operators is asked with the exclusion of (modes_keys.c).
KEYS = ("Conjugate", "Negative", "ZeroTensor")
IS_EXCLUDED = getattr(torch._C, "_dispatch_tls_is_dispatch_key_excluded", None)
SET_EXCLUDED = getattr(torch._C, "_dispatch_tls_set_dispatch_key_excluded", None)
IS_WRAPPED = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)


def computes_later(tensor):
    return tensor.device.type in LATER


def is_compiling():
    return False


if hasattr(torch, "compiler") and hasattr(torch.compiler, "is_compiling"):
    is_compiling = torch.compiler.is_compiling  # a constant to the compiler


def with_names(func, **names):
    """A function of Python that finds these among its global names, and else its own as they are."""
    inside = type("Names", (dict,), {"__missing__": func.__globals__.__getitem__})(names)
    inside["__builtins__"] = func.__globals__["__builtins__"]
    body = types.FunctionType(func.__code__, inside, func.__name__, func.__defaults__, func.__closure__)
    body.__kwdefaults__ = func.__kwdefaults__
    return body
