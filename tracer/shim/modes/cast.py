"""Functions computed in another dtype, their results cast back (modes_cast.c)."""
import functools

import torch

from ditrace_modes.arguments import named_arguments
from ditrace_modes.calls import Unchanged
from ditrace_modes.kernels import NARROW, is_tried, lacks_kernel, wants_gradient, why_lacking
from ditrace_modes.level import LEVEL
from ditrace_modes.link import LINK
from ditrace_modes.names import CPU, LATER, MAKE, VIEWS
from ditrace_modes.native import call_number, tensors_in
from ditrace_modes.values import Seen, all_of, tell_tables
from ditrace_runner.autocast_state import is_autocast
from ditrace_runner.call import walk
from ditrace_runner.functions import CASTS, DROPOUT_INSIDE, DROPOUTS, RANDOM, draws_inside

CASTINGS_IS_NEW = Seen().is_new
INTEGERS = {getattr(torch, name) for name in "uint8 int8 int16 int32 int64 uint16 uint32 uint64".split() if hasattr(torch, name)}
REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


def real_of(dtype):
    return REAL.get(dtype, dtype)


def complex_of(dtype):
    return torch.promote_types(dtype, torch.complex32)


def order_of(dtype):
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1 if dtype != torch.bool else 0


def integers(args, kwargs):
    """The dtype of the integers of a call, None: there are none. Of several no result tells which it follows."""
    found = INTEGERS & {t.dtype for t in tensors_in(args, kwargs)}
    if len(found) > 1 or kwargs.get("out_int32"):
        raise Unchanged("has integers of several dtypes")
    return found.pop() if found else None


def gives_sparse(plan, args, kwargs):
    """Whether its gradient is sparse, which autograd cannot cast back."""
    return plan.base in ("embedding", "embedding_bag") and any(
        name == "sparse" and x for name, x in named_arguments(plan, args, kwargs))


def check_call(plan, args, kwargs):
    if not LEVEL.is_aten and is_autocast():
        raise Unchanged("runs under autocast, whose own casts --level aten shows")
    if (plan.base in DROPOUT_INSIDE or plan.base.startswith("_scaled_dot_product")) and draws_inside(plan.base, args, kwargs):
        raise Unchanged(DRAWS)
    if gives_sparse(plan, args, kwargs) and wants_gradient(args, kwargs):
        raise Unchanged("has a sparse gradient")


def check_integers(args, kwargs):
    """Before a call that has some cast: many functions want int64, and some say so only when nothing can be taken back."""
    integers(args, kwargs)
    for t in tensors_in(args, kwargs):
        if t.device.type in LATER:
            raise Unchanged("has integers on a device that computes later")
        if t.requires_grad and torch.is_grad_enabled() and not LEVEL.is_aten:
            raise Unchanged("has integers beside what wants a gradient")


def check_kernels(plan, args, kwargs, dtypes):
    """Before a call that is cast to a narrow dtype, or on a device; those that compute at once say by themselves what
    they lack, but for the backward on the CPU."""
    tensors = tensors_in(args, kwargs)
    device = next((t.device for t in tensors if t.device.type != "cpu"), CPU)
    is_later = device.type in LATER
    if not is_later and not (device.type == "cpu" and wants_gradient(args, kwargs)):
        return
    if is_tried(plan, args, kwargs):
        why = why_lacking(plan, args, kwargs, device, dtypes)
    else:
        kinds = {t.dtype for t in tensors if t.dtype not in INTEGERS}
        safe = not is_later or len(kinds) == 1 and not NARROW & {dtypes.get(d) for d in kinds}
        why = None if safe else "may lack a kernel, on a device that computes later"
    if why and (is_later or lacks_kernel(why)):
        raise Unchanged(why)


# What gives the dtype of its first input, whatever the others have.
AS_FIRST = set("batch_norm instance_norm layer_norm group_norm rms_norm cosine_embedding_loss".split())


def promoted(plan, args, kwargs, result):
    """The dtype of a result of these: tensors without dimensions count where they are of a higher order."""
    tensors = tensors_in(args, kwargs)
    if len({t.dtype for t in tensors if t.dim() and t.dtype.is_floating_point}) > 1:
        if plan.base in AS_FIRST:
            return tensors[0].dtype
        if len(tensors_in(result)) > 1:
            raise Unchanged("gives several results, of tensors of several dtypes")
    some, none = ({t.dtype for t in tensors if bool(t.dim()) == has} for has in (True, False))
    found, alone = (functools.reduce(torch.promote_types, dtypes) if dtypes else torch.bool for dtypes in (some, none))
    if found.is_floating_point and alone.is_complex:
        found = complex_of(found)
    elif order_of(alone) > order_of(found) or not some:
        found = torch.promote_types(found, alone)
    return integers(args, kwargs) if found in INTEGERS else found


def counterpart(given, before, after, dtypes, args, kwargs):
    """The dtype that a result would have had, which is not `after`: a real number of complex ones, say, or an integer."""
    if given in INTEGERS:
        own = integers(args, kwargs) if given in dtypes.values() else None
        return own if dtypes.get(own) == given else given
    return next((of(before) for of in (real_of, complex_of) if given == of(after)), given)


def tell_casts(plan, at, called, given, result):
    dtypes, args, kwargs = called
    actions = [("input" + p, x.dtype, dtypes[x.dtype]) for p, x in [*walk(tuple(args)), *walk(kwargs)]
               if isinstance(x, torch.Tensor) and x.dtype in dtypes]
    actions += [("output" + p, x.dtype, y.dtype) for (p, x), (_, y) in zip(walk(all_of(result)), walk(all_of(given)))
                if isinstance(x, torch.Tensor) and x.dtype != y.dtype]
    text = plan.casts["text"] if plan.casts else LINK.settings["cast_text"]
    tell_tables(plan.name, call_number(), at, (["name", "target", "action", "config"],
                                          [[plan.name, target, f"{a} -> {b}", text] for target, a, b in actions]))


DTYPES = {}


def dtypes_of(casts):
    """None where this PyTorch lacks what they become."""
    return {getattr(torch, a): getattr(torch, b, None) for a, b in casts.items() if hasattr(torch, a)}


def start_casts():
    DTYPES.clear()
    DTYPES.update(dtypes_of(LINK.settings["casts"] or {}))


DRAWS = "is random, and draws other numbers in another dtype"
READS = set("item __float__ __int__ __bool__ __index__ __complex__ __nonzero__ __long__".split())
NO_CAST = [(MAKE, "makes a tensor"), (CASTS | set("int long short byte char bool chalf cfloat cdouble".split()), "is a cast"),
           (VIEWS, "is a view"), (READS, "reads a number"), (RANDOM | DROPOUTS, DRAWS), ({"nextafter"}, "depends on the dtype"),
           ({"bincount", "float_power", "ldexp"}, "gives a dtype of its own")]
