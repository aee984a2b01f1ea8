"""PyTorch's layers for attention ask whether a mode is on, and then compute in another way, which rounds differently
(torch/nn/modules/activation.py and transformer.py): for them ditrace's is none. The operators that they call meet it anyway."""
import types

import torch
import torch.overrides as functions

from ditrace_modes.level import LEVEL
from ditrace_modes.names import with_names
from ditrace_modes.wrapped import put_back, wrapper_of

LAYERS = torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer, torch.nn.TransformerEncoder
REPLACED = []  # (layer, forward, what is there now)


class Over:
    """A module with other names over its own."""

    def __init__(self, module, **names):
        vars(self).update(names, _module=module)

    def __getattr__(self, name):
        return getattr(self._module, name)


def has_torch_function(relevant_args):
    if not LEVEL.is_alone():
        return functions.has_torch_function(relevant_args)
    mode = LEVEL.pop()
    try:
        return functions.has_torch_function(relevant_args)
    finally:
        LEVEL.push(mode)


TORCH = Over(torch, overrides=Over(functions, has_torch_function=has_torch_function))


def answered(forward):
    """Not by another has_torch_function in torch.overrides: torch.compile knows the functions that are there."""
    body = with_names(forward, torch=TORCH)
    return wrapper_of(forward, lambda args, kwargs: body(*args, **kwargs))


def start_questions():
    for layer in LAYERS if not LEVEL.is_aten else ():
        was = vars(layer).get("forward")
        if type(was) is types.FunctionType and "has_torch_function" in was.__code__.co_names:
            REPLACED.append((layer, was, answered(was)))
            layer.forward = REPLACED[-1][2]


def end_questions():
    while REPLACED:
        layer, was, now = REPLACED.pop()
        put_back(layer, "forward", now, was, True)
