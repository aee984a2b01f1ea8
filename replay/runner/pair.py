"""Two captures of the same call."""
import os

import torch

from ditrace_runner.call import is_float, walk
from ditrace_runner.errors import Skipped
from ditrace_runner.load import load
from ditrace_runner.probe import Probe, rms

PARTS = (("input", "input"), ("output", "output"), ("grad_outputs", "grad_output"), ("grad_inputs", "grad"))
BOTH_OFF = 3.0  # roundoffs that are added to what may be the scale of one


def pair(request, talk):
    both = [{p: load(os.path.join(d, p + ".pth"), request) for p in ("input", "output", "grad_outputs", "grad_inputs")
             if os.path.exists(os.path.join(d, p + ".pth"))} for d in (request["dir"], request["other"])]
    name = both[0].get("input", {}).get("name", "")
    alike = is_alike(request.get("of_ranks"))
    for part, role in PARTS[1:2] if alike else PARTS:
        if (part in both[0]) != (part in both[1]):
            talk.say(event="mismatch", role=role, index="", reason=f"only one of the two has {part}.pth")
        elif part in both[0]:
            pair_part(role, [b[part] for b in both], both[1].get("input"), talk)
    return name


def is_alike(kind):
    """Two ranks of one collective: what they give differs, what they get may be alike."""
    if kind and kind.replace("_coalesced", "") not in ("allreduce", "broadcast", "allgather"):
        raise Skipped("each rank gets something else")
    return bool(kind)


def nest_of(d, role):
    args, kwargs = tuple(d["args"]), d.get("kwargs") or {}
    if role == "output" and len(args) == 1:
        return args[0]
    return (args, kwargs) if kwargs else args


class Inputs:
    def __init__(self, d):
        self.tensors = [t for _, t in walk((d["args"], d.get("kwargs") or {})) if isinstance(t, torch.Tensor)] if d else []


def pair_part(role, both, inputs, talk):
    """Nothing is known of the op but the sizes of its inputs: a result may be as long a sum as they allow, and there are
    the errors of two."""
    inputs = Inputs(inputs)
    a, b = (list(walk(nest_of(d, role))) for d in both)
    if len(a) != len(b):
        talk.say(event="mismatch", role=role, index="", reason=f"{len(a)} values against {len(b)}")
        return
    for (path, x), (_, y) in zip(a, b):
        say = dict(role=role, index=path.strip("[]").replace("][", ","))
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
                talk.say(event="mismatch", reason=f"{type(x).__name__} against {type(y).__name__}", **say)
            elif isinstance(x, torch.device) and isinstance(y, torch.device):
                continue
            else:
                same = x == y or (x != x and y != y)
                if not same or role != "input":
                    talk.say(event="value", equal=bool(same), actual=repr(x)[:200], reference=repr(y)[:200], **say)
        elif x.shape != y.shape:
            talk.say(event="mismatch", reason=f"shape {list(x.shape)} against {list(y.shape)}", **say)
        elif x.dtype != y.dtype:
            talk.say(event="mismatch", reason=f"dtype {str(x.dtype)[6:]} against {str(y.dtype)[6:]}", **say)
        else:
            x, y = x.detach().resolve_conj(), y.detach().resolve_conj()
            talk.tensors(dict(event="tensor", dtype=str(x.dtype)[6:], exact=not is_float(x), reach=Probe.length(y, inputs)[0],
                              common=BOTH_OFF, scale=rms(y) if is_float(y) else 0.0, **say), actual=x, reference=y, cpu=None)
