"""Calls saved as captures, as ditorch's OpCapture writes them: what --capture does from outside."""
import collections

from ditrace_modes.autocast import is_parameter_cast
from ditrace_modes.calls import Raised, Unchanged, own_call, quietly
from ditrace_modes.gradients import Backward, watch_backward
from ditrace_modes.level import LEVEL
from ditrace_modes.link import LINK
from ditrace_modes.live import Live, copied_results, edges_of
from ditrace_modes.native import call_number, count, tensors_in
from ditrace_modes.saved import save_part, save_results
from ditrace_runner.autocast_state import dtypes, is_autocast
from ditrace_runner.functions import UNINITIALISED


class SavedBackward(Backward):
    """What the backward of a call gets and gives."""

    @staticmethod
    def is_outside(live, node):
        return bool(live.about.get("autocast")) and is_parameter_cast(node)

    def end(self):
        live, leaves = self.live, self.live.leaves()
        of = [path.replace("][", "[", 1) + "]" * ("][" in path) for path, _ in leaves]
        save_part(live.about, "grad_outputs", live.parts["grad_outputs"]["args"])
        save_part(live.about, "grad_inputs", [live.grads.get(id(t)) for _, t in leaves], of=of)


NOT_SAVED = "cannot be saved"
CAPTURED = [0]  # calls, so far
CALLS, PICKED = collections.Counter(), collections.Counter()  # of each function: those met, and of these those in --nth


def is_chosen(name):
    """By --nth and --every."""
    nth, pick = LINK.settings["nth"], LINK.settings["pick"]
    CALLS[name] += 1
    if nth and not any(first <= CALLS[name] <= last for first, last in nth):
        return False
    PICKED[name] += 1
    return pick < 2 or (PICKED[name] - 1) % pick == 0


def save_call(live, edges, result, at, number, args, kwargs):
    saved = save_results(live.about, "output", copied_results(live, result, args, kwargs), last=True)
    count(("capture", live.name, None if saved else NOT_SAVED))
    if not saved:
        return
    watch_backward(live, edges, result, at, number, SavedBackward)


def save_raised(live, error):
    """Why it has no results."""
    save_part(live.about, "raised", [type(error).__name__], last=True)


def capture(plan, call, args, kwargs, at):
    if plan.base in UNINITIALISED:
        raise Unchanged("gives memory as it was")
    if 0 < LINK.settings["max_calls"] <= CAPTURED[0]:
        raise Unchanged("is beyond --max-calls")
    if not is_chosen(plan.name):
        raise Unchanged("is left out by --nth or --every")
    live = Live(plan, args, kwargs)
    live.about = dict(op=plan.name, above="", id=call_number(), time=live.began, where=list(at or ()))
    if not LEVEL.is_aten:  # there its casts are calls of their own
        live.about["autocast"] = dtypes() if is_autocast() else {}
    if not save_part(live.about, "input", live.args, live.kwargs):
        raise Unchanged(NOT_SAVED)
    CAPTURED[0] += 1
    edges = edges_of(live, tensors_in(args, kwargs))
    try:
        result = own_call(call, args, kwargs)
    except Raised as e:
        quietly(save_raised, live, e.error)
        raise
    quietly(save_call, live, edges, result, at, call_number(), args, kwargs)
    return result
