"""What a captured call was given, by the names of its operator's schema: for conditions."""
import inspect
import os

import torch

from ditrace_runner.errors import Refused
from ditrace_runner.functions import schemas_of
from ditrace_runner.load import LOCATIONS, load


class Misfit(Exception):
    """These arguments are not those of that schema."""


def fits(x, kind):
    """Can this be an argument of that type, as far as overloads differ in it?"""
    if kind.startswith("Optional["):
        return x is None or fits(x, kind[len("Optional["):-1])
    if kind.startswith("List["):
        inner = kind[len("List["):-1]
        if inner == "int" and isinstance(x, int) and not isinstance(x, bool):
            return True
        return isinstance(x, (tuple, list)) and all(fits(v, inner) for v in x)
    if kind == "Tensor":
        return isinstance(x, torch.Tensor)
    if kind in ("number", "Scalar"):
        return isinstance(x, (int, float, complex)) or isinstance(x, torch.Tensor) and not x.dim()
    if kind == "int":
        return isinstance(x, (int, torch.dtype, torch.layout, torch.memory_format)) and not isinstance(x, bool)
    if kind in ("float", "bool", "str"):
        return isinstance(x, {"float": (int, float), "bool": bool, "str": str}[kind])
    return x is not None or kind == "NoneType"


def bound(schema, args, kwargs):
    """The values of all arguments, in the order of the schema."""
    by_place = [a for a in schema.arguments if not a.kwarg_only]
    if by_place and len(args) > len(by_place) - 1 and "List[int]" in str(by_place[-1].type) and all(
            isinstance(x, int) for x in args[len(by_place) - 1:]):
        args = (*args[:len(by_place) - 1], list(args[len(by_place) - 1:]))  # x.view(2, 3)
    if len(args) > len(by_place):
        raise Misfit
    given = dict(zip((a.name for a in by_place), args))
    for name, value in kwargs.items():
        name = "self" if name == "input" and "self" not in given else name
        if name in given:
            raise Misfit
        given[name] = value
    values = []
    for a in schema.arguments:
        if a.name not in given and not a.has_default_value():
            raise Misfit
        value = given.pop(a.name) if a.name in given else a.default_value
        if not fits(value, str(a.type)) and not (value is None and a.has_default_value() and a.default_value is None):
            raise Misfit
        values.append(value)
    if set(given) - {"requires_grad", "inplace"}:
        raise Misfit
    return values


def tensor_facts(t):
    device = getattr(t, LOCATIONS, str(t.device))
    facts = {"dtype": str(t.dtype)[6:], "device": device, "layout": str(t.layout)[6:], "requires_grad": t.requires_grad,
             "shape": list(t.shape)}
    if t.layout == torch.strided:
        facts.update(stride=list(t.stride()), offset=t.storage_offset())
    return {"tensor": facts}


def value_facts(x, of_tensor=tensor_facts):
    if isinstance(x, torch.Tensor):
        return of_tensor(x)
    if x is None or isinstance(x, bool):
        return x
    if isinstance(x, int) and -2**63 <= x < 2**63:
        return x
    if isinstance(x, float):
        return {"float": repr(x)}
    if isinstance(x, complex):
        return {"complex": [repr(x.real), repr(x.imag)]}
    if isinstance(x, str):
        return x
    if isinstance(x, (tuple, list)):
        return [value_facts(v, of_tensor) for v in x]
    for kind, name in ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format")):
        if isinstance(x, kind):
            return {name: str(x)[6:]}
    return {"device": str(x)} if isinstance(x, torch.device) else {"other": type(x).__name__}


def by_signature(name, args, kwargs, functions, trust):
    """Names and values as a function that is written in Python has them."""
    try:
        given = inspect.signature(functions.find(name, trust)).bind(*args, **kwargs)
    except (Refused, TypeError, ValueError):
        return None
    given.apply_defaults()
    return list(given.arguments), list(given.arguments.values())


def describe_call(request, functions, talk):
    d = load(os.path.join(request["dir"], "input.pth"), request)
    args, kwargs = tuple(d["args"]), d.get("kwargs") or {}
    for schema in schemas_of(d["name"]):
        try:
            talk.say(event="described", schema=str(schema), args=[value_facts(v) for v in bound(schema, args, kwargs)])
            return
        except Misfit:
            pass
    names, values = by_signature(d["name"], args, kwargs, functions, request["trust"]) or (
        [""] * len(args) + list(kwargs), args + tuple(kwargs.values()))
    talk.say(event="described", name=d["name"], names=list(names), args=[value_facts(v) for v in values])
