"""The arguments of a call: their names, and which of them it writes to."""
import inspect

import torch

from ditrace_modes.calls import Unchanged
from ditrace_modes.level import LEVEL
from ditrace_modes.names import OPERATORS
from ditrace_modes.native import tensors_in


def arguments_of(func):
    """Of an operator; none of a function. Of one without the name of an overload, those of an overload that writes to what
    comes by place, else of the first."""
    if hasattr(func, "_schema"):
        return func._schema.arguments
    if not isinstance(func, OPERATORS):
        return []
    found = [getattr(func, name)._schema.arguments for name in func.overloads()]
    return next((a for a in found if any(is_written(x) and not x.kwarg_only for x in a)), found[0] if found else [])


def how_written(func, base):
    """What tells of tensors that a call writes to, though not every device counts their versions up. None: nothing."""
    if base in ("batch_norm", "instance_norm") or arguments_of(func) and base.endswith("batch_norm"):
        return written_statistics  # of which not all schemas tell
    if arguments_of(func):
        return written_by_schema
    return written_list if base.startswith("_foreach_") and base.endswith("_") else None


def written_list(plan, args, kwargs):
    return tensors_in(args[:1], kwargs.get("self"))


def written_statistics(plan, args, kwargs):
    names = [a.name for a in arguments_of(plan.func)]
    named = dict(zip(names, args) if names else named_arguments(plan, args, kwargs), **kwargs)
    wanted = named.get("training") or named.get("use_input_stats")
    return tensors_in(named.get("running_mean"), named.get("running_var")) if wanted else []


def is_written(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def written_by_schema(plan, args, kwargs):
    """The tensors that an operator writes to."""
    named = [(a, args[i] if i < len(args) else kwargs.get(a.name)) for i, a in enumerate(arguments_of(plan.func))]
    return [t for a, x in named if is_written(a) for t in tensors_in(x)]


def may_write(plan, args, kwargs):
    """By its name: where nothing else tells."""
    at = plan.inplace_at
    return plan.writes or "out" in kwargs or bool(kwargs.get("inplace") or at is not None and any(args[at:at + 1]))


def write_back(pairs):
    """What a call has written to copies, into the tensors of the program: all or nothing."""
    for x, new in pairs:
        if x.shape != new.shape:
            raise Unchanged("changes the shape of an argument")
        if x.requires_grad and x.is_leaf and torch.is_grad_enabled() and not LEVEL.is_aten:
            raise Unchanged("changes a leaf that wants a gradient")
    for x, new in pairs:
        x.copy_(new.to(x.dtype))  # the lazy device loses views where it has to cast itself


def fact(x):
    """A value as ditrace's conditions are told it."""
    if x is None or isinstance(x, float) and x - x == 0 or isinstance(x, int) and abs(x) < 1 << 63:
        return x
    if isinstance(x, torch.Tensor):
        return {"tensor": dict(shape=list(x.shape), stride=list(x.stride()), offset=x.storage_offset(),
                               dtype=str(x.dtype)[6:], device=str(x.device), layout=str(x.layout)[6:],
                               requires_grad=x.requires_grad)}
    if isinstance(x, (tuple, list)):
        return [fact(v) for v in x]
    for kind, name in ((str, "text"), (torch.device, "device"), (torch.dtype, "dtype"), (torch.layout, "layout"),
                       (torch.memory_format, "format")):
        if isinstance(x, kind):
            return {name: str(x).replace("torch.", "", 1) if name not in ("text", "device") else str(x)}
    return {}


def parameters_of(func):
    """Python's; of an operator none are known to Python."""
    if isinstance(func, OPERATORS):
        return {}
    try:
        return inspect.signature(func).parameters
    except (TypeError, ValueError):
        return {}


def named_arguments(plan, args, kwargs):
    """(name, value) of those that are given, in their order, and then of the others that Python knows a value for."""
    parameters = parameters_of(plan.func)
    given = [*zip(names_of(plan, list(parameters), len(args)), args), *kwargs.items()]
    names = [name for name, _ in given]
    return given + [(k, p.default) for k, p in parameters.items() if p.default is not p.empty and k not in names]


def names_of(plan, names, n):
    """Of the arguments that are given by place: Python's, else the operator's, else those of the operator of that name."""
    names = names or [a.name for a in arguments_of(plan.func)]
    if not names:
        for schema in torch._C._jit_get_schemas_for_operator("aten::" + plan.base):
            if len(schema.arguments) >= n:
                names = [a.name for a in schema.arguments]
                break
    return [names[i] if i < len(names) else f"arg{i}" for i in range(n)]
