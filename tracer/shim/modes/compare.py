"""Functions judged while the program runs."""
import time

import torch

from ditrace_modes.autocast import found_of
from ditrace_modes.calls import Unchanged, own_call, quietly
from ditrace_modes.gradients import spending, watch_backward
from ditrace_modes.level import LEVEL
from ditrace_modes.link import LINK
from ditrace_modes.live import Live, edges_of, keep_results
from ditrace_modes.names import MAKE, VIEWS
from ditrace_modes.native import budget, call_number, count, number_taken, spend, takes, tensors_in
from ditrace_modes.values import each
from ditrace_modes.verdicts import judge
from ditrace_runner.autocast_state import is_autocast
from ditrace_runner.device import call_of
from ditrace_runner.errors import Refused, first_line
from ditrace_runner.functions import BITS, CASTS, DROPOUT_INSIDE, DROPOUTS, MOVES, RANDOM, UNINITIALISED

WHOLE = RANDOM | DROPOUT_INSIDE | DROPOUTS | UNINITIALISED | CASTS | BITS | {"requires_grad_"}
QUICK, EXACT, IN_PLACE = 1, 2, 4


def how_quick(plan):
    """Whether its calls may be compared in C (modes_compare.c), whether only equal results are right, and whether it
    writes its first argument."""
    if not plan.is_asked or LEVEL.is_aten or plan.base in WHOLE or plan.base.startswith(("__", "as_strided")):
        return 0
    return QUICK | EXACT * (plan.base in MOVES) | IN_PLACE * plan.base.endswith("_")


BEYOND = "is beyond the budget"


def never_compared(plan):
    """Why no call of a function is compared, whatever its arguments; None: they may be."""
    if plan.base in VIEWS or plan.base.startswith("as_strided"):
        return "is a view"
    return "makes a tensor" if plan.base in MAKE else None


def states_of(tensors):
    """Of the generators that random numbers may be drawn from."""
    calls = [call_of(device, "get_rng_state") for device in sorted({str(t.device) for t in tensors})]
    return [torch.get_rng_state(), *(call() for call in calls if call is not None)]


def compare_call(plan, call, args, kwargs, at):
    tensors = tensors_in(args, kwargs)
    reason = never_compared(plan) or (None if tensors else "makes a tensor")
    if reason:
        raise Unchanged(reason)
    plan.calls = getattr(plan, "calls", 0) + 1
    if (plan.calls - 1) % LINK.settings["sample"]:
        raise Unchanged("is left out by --every")
    if not plan.is_asked and not takes(plan):
        raise Unchanged(BEYOND)
    if any(isinstance(x, torch.Generator) for x in each((args, kwargs))):
        raise Unchanged("may draw random numbers")
    if torch._C._len_torch_dispatch_stack():
        raise Unchanged("runs under a TorchDispatchMode of the program")
    if is_autocast() and (LEVEL.is_aten or plan.is_foreign):
        raise Unchanged("runs under autocast")
    if any(t._base is not None and t.requires_grad for t in tensors) and plan.base.endswith("_"):
        raise Unchanged("changes a view that has a history")
    number, began = call_number(), time.perf_counter_ns()
    found = found_of(plan, tensors, args, kwargs) if is_autocast() else None
    live = Live(plan, args, kwargs, found, tensors)
    try:
        live.check_comparable()
    except Refused as e:
        raise Unchanged(f"cannot be compared: {e}") from None
    edges = edges_of(live, tensors) if found is None or found.whole else {}
    states = states_of(tensors)
    taken = number_taken()
    spend(taken, False, time.perf_counter_ns() - began)
    result = own_call(call, args, kwargs)
    if not all(map(torch.equal, states, states_of(tensors))):
        quietly(count, ("compare", plan.name, "draws random numbers"))
        return result
    quietly(spending, taken, False, compare_result, live, edges, result, at, number, args, kwargs, taken)
    return result


def compare_made(plan, args, kwargs, at, result):
    """A call that was made already, and has changed none of its arguments."""
    live = Live(plan, args, kwargs)
    compare_result(live, edges_of(live, tensors_in(args, kwargs)), result, at, call_number(), args, kwargs, number_taken())


def watch_made(plan, args, kwargs, at, result):
    """The same where only the backward is still to be judged."""
    live = Live(plan, args, kwargs)
    keep_results(live, result, args, kwargs)
    watch_backward(live, edges_of(live, tensors_in(args, kwargs)), result, at, call_number(), taken=number_taken())


def compare_result(live, edges, result, at, number, args, kwargs, taken):
    try:
        keep_results(live, result, args, kwargs)
        judge(live, False, at, number, (args, kwargs), result)
    except Exception as e:
        count(("compare", live.name, f"could not be judged: {first_line(e)}"))
        raise
    count(("compare", live.name, None))
    live.differentiable = not live.has_out and any(t.requires_grad for t in live.tensors)
    watch_backward(live, edges, result, at, number, taken=taken)


def start_budget():
    budget(LINK.settings["budget"])
