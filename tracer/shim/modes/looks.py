"""What is only looked at: arguments and results printed, and the time that calls take."""
import time

from ditrace_modes.calls import Raised, own_call, quietly
from ditrace_modes.link import LINK
from ditrace_modes.native import call_number, count, is_busy, is_out, tensors_in
from ditrace_modes.values import Seen, described_in, place_text, rows_of, tell_tables
from ditrace_runner.device import synchronize
from ditrace_runner.times import described


def print_args(plan, call, args, kwargs, at):
    rows = quietly(rows_of, f"{plan.name} inputs", args, kwargs) or []
    result = own_call(call, args, kwargs)
    count(("print", plan.name, None))
    quietly(lambda: tell_tables(plan.name, call_number(), at, described_in(rows + rows_of(f"{plan.name} outputs", result))))
    return result


TIMED = Seen()  # calls whose table was printed


def wait_for(devices):
    for d in devices:
        synchronize(d)


def clocked(devices):
    wait_for(devices)
    return time.perf_counter_ns()


def tell_time(plan, at, number, which, ns, texts, rows):
    """which: forward or backward; texts: for the columns of the CSV."""
    if rows:
        took = [plan.name, str(number), f"{ns / 1e6:.8f}", "ms"]
        tell_tables(plan.name, number, at, described_in(rows), (["name", "forward_id", f"{which}_elasped", "unit"], [took]))
    LINK.say(event="timed", name=plan.name, where=place_text(at), id=number, **{which: [ns]}, **texts)


def hook_before(node, result, f):
    """f is called before the node runs."""
    if hasattr(node, "register_prehook"):
        node.register_prehook(f)
    else:  # before 2.0
        for t in result:
            t.register_hook(f)


def watch_time(plan, at, number, devices, result, is_first):
    """The time of the node that made the results."""
    outs = [t for t in tensors_in(result) if t.requires_grad and t.grad_fn is not None]
    nodes = {t.grad_fn for t in outs}
    if len(nodes) != 1:
        return
    node, began = nodes.pop(), []

    def begins():
        began[:] = [clocked(devices)]

    def ends(grad_inputs, grad_outputs):
        ns = clocked(devices) - began.pop()
        texts = {"grad_inputs": described(grad_inputs), "grad_outputs": described(grad_outputs)}
        rows = is_first and rows_of(f"{plan.name} grad_outputs", grad_outputs) + rows_of(f"{plan.name} grad_inputs", grad_inputs)
        tell_time(plan, at, number, "backward", ns, texts, rows)

    def called(f):
        def hook(*args):
            if not is_out() and not is_busy():
                quietly(f, *args)

        hook.__torch_unserializable__ = True
        return hook

    hook_before(node, outs, called(lambda *_: begins()))
    node.register_hook(called(ends))


def measure_time(plan, call, args, kwargs, at):
    devices = {str(t.device) for t in tensors_in(args, kwargs)}
    rows = quietly(rows_of, f"{plan.name} inputs", args, kwargs)
    texts = {"input": quietly(described, args, kwargs) or ""}
    start = clocked(devices)
    result = own_call(call, args, kwargs)
    try:
        ns = clocked(devices) - start
    except Exception as e:
        raise Raised(e) from None
    is_first = TIMED.is_new(plan.name, at, args, kwargs)
    count(("time", plan.name, None))
    texts["output"] = quietly(described, (result,)) or ""
    quietly(lambda: tell_time(plan, at, call_number(), "forward", ns, texts,
                              is_first and rows and rows + rows_of(f"{plan.name} outputs", result)))
    quietly(watch_time, plan, at, call_number(), devices, result, is_first)
    return result
