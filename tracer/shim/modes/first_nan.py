"""The first operator that makes a NaN or an infinity of finite inputs: what --first-nan does from outside."""
import dis
import math
import re
import signal
import sys
import threading
import time
import traceback

import torch
import torch.utils._python_dispatch as operators

from ditrace_modes.arguments import arguments_of, is_written, written_by_schema
from ditrace_modes.calls import Unchanged, check_readable, own_call
from ditrace_modes.link import LINK
from ditrace_modes.live import Live, copied_results
from ditrace_modes.names import LATER, VIEWS
from ditrace_modes.native import call_number, count, tensors_in
from ditrace_modes.overflow import MEASURED, measured
from ditrace_modes.saved import save_part, save_results
from ditrace_modes.values import all_of, each, place_text, rebuilt, where_text
from ditrace_runner.errors import first_line
from ditrace_runner.functions import PRIVATE, UNINITIALISED, namespace_of

KEPT_MOST = 64 << 20  # bytes of what one operator writes over, kept as they were
# Operators that return before what they give is there, of which waiting for the current stream tells nothing.
NOT_READY = set("c10d c10d_functional _c10d_functional _c10d_functional_autograd symm_mem".split())


def is_no_origin(plan):
    """It gives what was in memory before, whatever that is."""
    return plan.base in VIEWS or plan.base in UNINITIALISED or namespace_of(plan.name) in NOT_READY


def extremes(t):
    """Two numbers on its device, which are finite if all of t are."""
    t = t.detach()
    if t.is_complex():
        t = torch.view_as_real(t.resolve_conj())
    try:
        return torch.aminmax(t)
    except RuntimeError:  # no kernel for this dtype, or on this device
        wide = t.float()
        return wide.min(), wide.max()


def any_bad(tensors):
    """Is a NaN or an infinity among their numbers? One copy from the device, for each dtype."""
    kinds = {}
    for t in tensors:
        check_readable(t)
        if getattr(t, "is_nested", False):
            raise TypeError("a nested tensor")
        if t.layout != torch.strided:
            raise TypeError(f"layout {str(t.layout)[6:]}")
        if 0 not in t.shape and (t.is_floating_point() or t.is_complex()):  # numel() is 0 on the lazy device of PyTorch 1
            kinds.setdefault((t.device, t.dtype), []).extend(extremes(t))
    return any(not math.isfinite(x) for both in kinds.values() for x in torch.stack(both).tolist())


def is_bad_number(x):
    return isinstance(x, (float, complex)) and x - x != 0


class Before:
    """What an operator writes to, as it is before, and whether something is bad there already."""

    def __init__(self, plan, args, kwargs):
        self.written = written_by_schema(plan, args, kwargs)
        outs = {id(t) for a in arguments_of(plan.func) if a.kwarg_only and is_written(a)
                for t in tensors_in(kwargs.get(a.name))}
        self.outs = outs  # which are only written
        self.bad = any_bad([t for t in self.written if id(t) not in outs])
        size = sum(t.numel() * t.element_size() for t in self.written)
        self.kept = {id(t): t.clone() for t in self.written} if size <= KEPT_MOST else None

    def given(self, args, kwargs):
        """The arguments as they were; None: they are not all there any more."""
        if self.kept is None:
            return None
        old = [rebuilt(x, lambda t: self.kept.get(id(t), t) if isinstance(t, torch.Tensor) else t) for x in (tuple(args), dict(kwargs))]
        return tuple(old)

    def was_bad(self, args, kwargs):
        written = {id(t) for t in self.written}
        return self.bad or any(map(is_bad_number, each((args, kwargs)))) or any_bad(
            [t for t in tensors_in(args, kwargs) if id(t) not in written])


def results_of(plan, result, before):
    """Without those that only the operator's own backward reads, of which parts may be memory as it was."""
    given = all_of(result)
    forward_attention = "attention" in plan.base and "backward" not in plan.base
    skipped = set(range(1, len(given))) if forward_attention else PRIVATE.get(plan.base, ())
    found = tensors_in([x for i, x in enumerate(given) if i not in skipped])
    return found + [t for t in before.written if all(t is not x for x in found)]


# --- where the node of a backward was made

STACKS_MOST, FRAMES_MOST = 1 << 16, 64
STACKS = {}  # sequence number of a node: (thread, operator, ((code, instruction), ..)), None: of nodes of two threads
SEEN = threading.local()
NEXT_NUMBER = getattr(torch.autograd, "_get_sequence_nr", None)
CURRENT_NODE = getattr(torch._C, "_current_autograd_node", None)


def is_of(base, node):
    return re.sub(r"Backward\d*$", "", node).lower().replace("_", "") == base.lower().replace("_", "")


def note_node(plan):
    """The node of an operator is made before the operator is met here, and has the number before the next one."""
    number, was = NEXT_NUMBER(), getattr(SEEN, "number", None)
    SEEN.number = number
    if was is None or number == was:
        return
    frame, stack = sys._getframe(), []
    for _ in range(2):  # on a thread of autograd's there is nothing outside of these two
        frame = frame and frame.f_back
    while frame is not None and len(stack) < FRAMES_MOST:
        stack.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    thread = threading.get_ident()
    known = STACKS.get(number - 1, (thread,))
    STACKS[number - 1] = (thread, plan.base, stack) if known is not None and known[0] == thread else None
    if len(STACKS) > STACKS_MOST:
        STACKS.pop(next(iter(STACKS)), None)


ASKING = operators.__file__


def is_own(file):
    return file.startswith("ditrace/") or file == ASKING  # which PyTorch 1 asks modes in


def line_at(code, instruction):
    lines = [line for start, line in dis.findlinestarts(code) if start <= instruction and line]
    return code.co_filename, lines[-1] if lines else code.co_firstlineno, code.co_name


def stack_of(node):
    """Of the operator whose backward the node is, the innermost frame first; None: not known."""
    noted = STACKS.get(node._sequence_nr()) if hasattr(node, "_sequence_nr") else None
    if noted is None or not is_of(noted[1], node.name()):
        return None
    return [where_text(line_at(*x)) for x in noted[2] if not is_own(x[0].co_filename)]


def stack_here():
    found = [f for f in traceback.extract_stack() if not is_own(f.filename)]
    return [where_text((f.filename, f.lineno, f.name)) for f in reversed(found[-FRAMES_MOST:])]


# --- what is told

def counts_in(rows):
    """NaN, +inf and -inf in all rows that were measured."""
    columns = [MEASURED.index(name) for name in ("nan", "inf", "-inf")]
    return [sum(int(r[i]) for r in rows if r[i]) for i in columns]


def save(plan, at, given, result, gave):
    about = dict(op=plan.name, above="", id=call_number(), time=int(time.time()), where=list(at or ()))
    live = Live(plan, *given) if given else Live(plan, (), {})
    if given and not save_part(about, "input", live.args, live.kwargs):
        return
    results = result if tensors_in(result) else gave
    save_results(about, "output", copied_results(live, results, (), {}), last=True)


def tell_found(plan, args, kwargs, before, result, gave, at):
    given = before.given(args, kwargs)
    rows = measured(f"{plan.name} input", given[0]) + measured(f"{plan.name} input", given[1]) if given else []
    made = measured(f"{plan.name} output", tuple(gave))
    node = CURRENT_NODE() if CURRENT_NODE else None
    forward = stack_of(node) if node is not None else None
    with LINK.lock:
        first = LINK.ask(event="found", name=plan.name, id=call_number(), counts=counts_in(made), place=place_text(at) if at else "",
                         title=f"{plan.name}    id: {call_number()}", where=where_text(at), tables=[(MEASURED, rows + made)],
                         python=stack_here(), forward=forward, node=node.name() if node is not None else "", kept=given is not None,
                         thread=threading.get_native_id())["first"]
        if not first:
            return
        try:
            save(plan, at, given, result, gave)
        finally:
            LINK.say(event="over")
    if LINK.settings["hold"]:
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # taken before this thread runs on


def wait_for_copies(args, kwargs, gave):
    """What a device copies to the CPU is not there yet when the operator returns (non_blocking); another copy, which blocks,
    comes after it."""
    if any(t.device.type == "cpu" for t in gave):
        for t in tensors_in(args, kwargs):
            if t.device.type not in ("cpu", *LATER) and 0 not in t.shape:
                check_readable(t)
                t.detach().as_strided((1,), (1,), t.storage_offset()).cpu()


def look(plan, args, kwargs, before, result, at):
    gave = results_of(plan, result, before)
    wait_for_copies(args, kwargs, gave)
    if not any_bad(gave):
        return
    if not before.was_bad(args, kwargs):
        tell_found(plan, args, kwargs, before, result, gave, at)
        return
    if not PASSED:
        PASSED.append(plan.name)
        LINK.say(event="passed", name=plan.name, id=call_number(), place=place_text(at) if at else "")
    count(("passed", plan.name, None))


PASSED = []  # the first that gave such numbers and had been given some


def first_nan(plan, call, args, kwargs, at):
    if is_no_origin(plan):
        return own_call(call, args, kwargs)
    if NEXT_NUMBER:
        note_node(plan)
    before = Before(plan, args, kwargs)
    result = own_call(call, args, kwargs)
    try:
        look(plan, args, kwargs, before, result, at)
    except Unchanged as e:
        count(("first-nan", plan.name, str(e)))
    except Exception as e:
        count(("first-nan", plan.name, f"could not be measured: {first_line(e)[:80]}"))
    else:
        count(("first-nan", plan.name, None))
    return result
