"""Which functions of PyTorch that the program calls have a plan."""
import types

import torch
import torch.overrides as functions

from ditrace_modes.compare import BEYOND, how_quick, never_compared
from ditrace_modes.level import LEVEL
from ditrace_modes.link import LINK
from ditrace_modes.names import OPERATORS, with_names
from ditrace_modes.plan import Plan
from ditrace_modes.wrapped import bind_late
from ditrace_runner.functions import DUALS, FOREIGN, MARKS, base_name, namespace_of

# Functions that tell of a tensor, arrange for gradients, or move data: nothing is computed.
NOT_COMPUTED = set("""size dim ndimension stride numel nelement element_size is_contiguous is_floating_point is_complex
    is_signed is_pinned is_shared is_inference is_conj is_neg is_same_size backward register_hook
    register_post_accumulate_grad_hook retain_grad requires_grad_ detach detach_ data_ptr storage untyped_storage
    storage_offset storage_type typed_storage get_device to cpu cuda npu type pin_memory share_memory_ record_stream
    reinforce set_ resize_ resize resize_as_ resize_as resize_as_sparse_ __len__ __repr__ __str__ __format__ __hash__
    __dir__ __deepcopy__ __reduce__ __reduce_ex__ __setstate__ __contains__ __array__ __array_wrap__ __iter__ __dlpack__
    __dlpack_device__ __cuda_array_interface__ numpy tolist names rename rename_ align_to align_as refine_names
    has_names device dtype is_distributed is_tensor is_storage result_type can_cast promote_types get_default_dtype
    set_default_dtype manual_seed seed save load broadcast_shapes as_subclass apply_ map_ map2_ module_load
    resolve_conj resolve_neg lift_fresh sparse_mask to_sparse to_dense coalesce values indices crow_indices
    col_indices dense_dim sparse_dim to_mkldnn is_coalesced q_scale q_zero_point qscheme is_set_to is_alias_of
    _is_zerotensor _has_same_storage_numel _has_compatible_shallow_copy_type _use_cudnn_ctc_loss
    _use_cudnn_rnn_flatten_weight cudnn_is_acceptable _version is_leaf output_nr sym_size sym_stride sym_numel
    sym_storage_offset sym_is_contiguous _is_view""".split())
ARITHMETIC = set("""rsub pow rpow div rdiv truediv rtruediv floordiv rfloordiv matmul rmatmul mod rmod ipow idiv
    itruediv ifloordiv imod lshift rlshift rshift rrshift""".split())


def plan_of(func):
    """(Plan or None, its own body or None, what is called for it or None, as what it is counted when it is left out or
    None, whether it always is), None: the function is called as it is."""
    bind_late()
    plan = wanted_of(func)
    found = plan, body_of(func), stand_in(func)
    out = left_out(plan)
    if plan is not None:
        plan.is_asked = out[0] is not None
        plan.quick = how_quick(plan)
    return (*found, *out) if any(found) else None


def is_higher(func):
    """Of the dispatcher's operators: does it run functions that it is given, as cond? It has no schema."""
    return LEVEL.is_aten and not hasattr(func, "_schema")


def why_alone(plan):
    """Why an operator is called as it is, whatever was asked for; None: it need not be."""
    if is_higher(plan.func):
        return "runs functions that it is given"
    space = namespace_of(plan.name)
    if space in MARKS:
        return "marks a place in the program"
    # Another call of one that talks to other processes would wait for calls that these never make.
    return "is not for the tensors of one process" if space in FOREIGN else None


def left_out(plan):
    """Of functions that are compared alone, and whose calls need no other look."""
    why = plan and why_alone(plan)
    if why:
        return (plan.features[0], plan.name, why), True
    if plan is None or plan.features != ["compare"] or plan.when:
        return None, False
    reason = never_compared(plan)
    if reason or LINK.settings["sample"] == 1:
        return ("compare", plan.name, reason or BEYOND), reason is not None
    return None, False


def stand_in(func):
    """Before 2.0 an operator comes with Python's number where it takes a tensor, which it then refuses itself."""
    if not LEVEL.is_aten or hasattr(torch, "compile") or func._schema.overload_name != "Tensor":
        return None
    places = [i for i, a in enumerate(func._schema.arguments) if str(a.type) == "Tensor"]

    def call(*args, **kwargs):
        good = all(isinstance(args[i], torch.Tensor) for i in places if i < len(args))
        return func(*args, **kwargs) if good else func.overloadpacket(*args, **kwargs)

    return call


def own_name(func, name):
    """Of the names of a function the one that it has itself: PyTorch's own answer for torch.mm is torch.spmm."""
    own = getattr(func, "__name__", "_")
    if not isinstance(name, str) or own.startswith("_") or name.endswith("." + own):
        return name
    space = name.rpartition(".")[0]
    place = torch
    for part in space.split(".")[1:]:
        place = getattr(place, part, None)
    return f"{space}.{own}" if getattr(place, own, None) == func else name


def name_of(func):
    """As ditorch names functions, or as the dispatcher does operators. None: it is neither."""
    if is_higher(func):
        return f"higher_order::{func}"
    if LEVEL.is_aten:
        schema = func._schema
        return schema.name + ("." + schema.overload_name if schema.overload_name else "")
    if isinstance(func, OPERATORS):
        return f"torch.ops.{func}"
    name = own_name(func, functions.resolve_name(func))
    if name is None and getattr(func, "__name__", "").startswith("_foreach_"):  # PyTorch 1 names it
        name = "torch." + func.__name__
    good = isinstance(name, str) and name.startswith("torch.") and not name.endswith((".__get__", ".__set__", ".__delete__"))
    return name if good else None


def wanted_of(func):
    name = name_of(func)
    if name is None:
        return None
    base = base_name(name)
    if base in NOT_COMPUTED or base in DUALS or (namespace_of(name) in MARKS and not LEVEL.is_aten):
        return None
    answer = LINK.ask(event="name", name=name, base=base)
    return Plan(func, name, answer["features"], answer["when"], answer["casts"]) if answer["features"] else None


# Functions that are written in Python are run so that those which they call come to the mode, too: with the mode on,
# and without their own question whether there is one.
QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
BODIES = ("torch.functional", "torch.nn.functional", "torch._tensor", "torch._linalg_utils", "torch._lowrank", "torch.autograd")
OTHER_BODIES = set("backward unflatten split stft istft norm lu unique unique_consecutive".split())


def is_python(func):
    if type(func) is not types.FunctionType or func.__module__ not in BODIES:
        return False
    name = func.__name__
    return any(q in func.__globals__ for q in QUESTIONS) and (
        func.__module__ != "torch._tensor" or name in OTHER_BODIES or name.strip("_") in ARITHMETIC)


def body_of(func):
    if LEVEL.is_aten or not is_python(func):
        return None
    return with_names(func, **{q: lambda *_: False for q in QUESTIONS})
