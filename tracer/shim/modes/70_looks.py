# What is only looked at: arguments and results printed, and the time that calls take.

CALL = threading.local()  # now: (plan, number) of the call under way


class Number:
    """The number of a call, ditorch's forward_id: one for all that is told of it."""

    def __init__(self, plan):
        self.plan = plan

    def __enter__(self):
        self.was = getattr(CALL, "now", None)
        if self.was is None or self.was[0] is not self.plan:
            NUMBER[0] += 1
            CALL.now = self.plan, NUMBER[0]
        return CALL.now[1]

    def __exit__(self, *_):
        CALL.now = self.was


def own_call(call, args, kwargs):
    """The program's own call, which is not to be made again when it fails."""
    try:
        return call(*args, **kwargs)
    except Exception as e:
        raise Raised(e) from None


def print_args(plan, call, args, kwargs, at):
    with Number(plan) as number:
        rows = quietly(rows_of, f"{plan.name} inputs", args, kwargs) or []
        result = own_call(call, args, kwargs)
        count(("print", plan.name, None))
        quietly(lambda: tell_table(f"{plan.name}    forward_id: {number}", at, rows + rows_of(f"{plan.name} outputs", result)))
    return result


FEATURES["print"] = print_args


TIMED = Seen()  # calls whose table was printed


def wait_for(devices):
    for d in devices:
        synchronize(d)


def clocked(devices):
    wait_for(devices)
    return time.perf_counter_ns()


def tell_time(plan, at, number, which, ns, texts, tables):
    """which: forward or backward; texts: for the columns of the CSV."""
    if tables:
        title = f"{plan.name}    forward_id: {number}"
        tell_table(title, at, tables)
        tell_rows(title, at, ["name", "forward_id", f"{which}_elasped", "unit"], [[plan.name, str(number), f"{ns / 1e6:.8f}", "ms"]],
                  stack=False)
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
    with Number(plan) as number:
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
        quietly(lambda: tell_time(plan, at, number, "forward", ns, texts,
                                  is_first and rows and rows + rows_of(f"{plan.name} outputs", result)))
        quietly(watch_time, plan, at, number, devices, result, is_first)
    return result


FEATURES["time"] = measure_time
