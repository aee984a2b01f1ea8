"""Statistics of what functions are given and give, and of the gradients: those of --stats."""
import torch

from ditrace_modes.arguments import may_write
from ditrace_modes.calls import Busy, Unchanged, check_readable, own_call, quietly, unfit
from ditrace_modes.names import VIEWS
from ditrace_modes.native import call_number, count, is_busy, is_out, statistics, tensors_in
from ditrace_modes.values import Seen, all_of, place_text, tell_tables
from ditrace_runner.call import walk
from ditrace_runner.errors import first_line
from ditrace_runner.functions import UNINITIALISED

MEASURED = ["name", "inf_or_nan", "min", "max", "mean", "std", "norm", "nan", "inf", "-inf", "zeros", "hash"]
FOUND = Seen()  # calls whose table was printed
BAD = 1  # inf_or_nan in a row


def measured(name, x):
    """A row for each tensor in x."""
    rows = []
    for path, t in walk(x):
        if isinstance(t, torch.Tensor):
            try:
                check_readable(t)
                rows.append([name + path, *statistics(t)])
            except Exception as e:
                why = (unfit([t]) or first_line(e))[:80]
                rows.append([name + path, why[4:] if why.startswith("has ") else why, *[""] * (len(MEASURED) - 2)])
    return rows


def is_bad(rows):
    return any(r[BAD] == "True" for r in rows)


def tell_measured(plan, number, at, rows, bad):
    if bad:
        count(("bad", plan.name, place_text(at)))
    if rows and FOUND.is_new(plan.name, at, ([r[0] for r in rows], bad), {}):
        tell_tables(plan.name, number, at, (MEASURED, rows))


def watch_gradients(plan, number, at, result):
    """What the node of the results gets and gives."""
    nodes = {t.grad_fn for t in tensors_in(result) if t.requires_grad and t.grad_fn is not None}
    if len(nodes) != 1:
        return

    def called(grad_inputs, grad_outputs):
        if is_out() or is_busy():
            return
        with Busy():
            given = measured(f"{plan.name} grad_outputs", tuple(grad_outputs))
            made_ = measured(f"{plan.name} grad_inputs", tuple(grad_inputs))
            quietly(tell_measured, plan, number, at, given + made_, is_bad(made_) and not is_bad(given))

    nodes.pop().register_hook(called)


def overflow_check(plan, call, args, kwargs, at):
    if plan.base in VIEWS or plan.base in UNINITIALISED:
        raise Unchanged("is a view" if plan.base in VIEWS else "gives memory as it was")
    rows = quietly(lambda: measured(f"{plan.name} input", tuple(args)) + measured(f"{plan.name} input", dict(kwargs))) or []
    result = own_call(call, args, kwargs)
    made_ = args[:1] if result is None and may_write(plan, args, kwargs) else all_of(result)
    gave = quietly(measured, f"{plan.name} output", made_) or []
    count(("overflow", plan.name, None))
    quietly(tell_measured, plan, call_number(), at, rows + gave, is_bad(gave))
    quietly(watch_gradients, plan, call_number(), at, result)
    return result
