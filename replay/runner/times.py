"""Times."""
import time

import torch

from ditrace_runner.call import Call, walk
from ditrace_runner.device import synchronize
from ditrace_runner.errors import Refused
from ditrace_runner.load import LOCATIONS


def describe(x):
    """What save_op_args.py of ditorch puts into the JSON and the CSV."""
    if isinstance(x, torch.Tensor):
        return {"device": getattr(x, LOCATIONS, str(x.device)), "dtype": str(x.dtype)[6:], "numel": x.numel(),
                "shape": str(tuple(x.shape)), "stride": tuple(x.stride()) if x.layout == torch.strided else None,
                "requires_grad": x.requires_grad, "layout": str(x.layout),
                "data_ptr": x.data_ptr() if x.layout == torch.strided and x.device.type != "lazy" else 0}
    if isinstance(x, dict):
        return {k: describe(v) for k, v in x.items()}
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        made = [describe(v) for v in x]
        return made if isinstance(x, list) else tuple(made)
    return str(x)


def described(args, kwargs=None):
    d = {"args": describe(tuple(args))}
    if kwargs:
        d["kwargs"] = describe(kwargs)
    return str(d)


def measure(capture, request, talk):
    c, device = capture, request["device"]
    c.resolve()
    grads = None if request["forward_only"] else c.file("grad_outputs")
    c.differentiable = c.differentiable and grads is not None
    call = Call(c, device=device)
    forward, backward, why, texts = [], [], None, {}
    for i in range(request["times"]):
        if i == 0 or c.changes_inputs:
            args, kwargs = call.prepare()
        synchronize(device)
        with torch.set_grad_enabled(c.differentiable):
            start = time.perf_counter_ns()
            r = c.call(*args, **kwargs)
            synchronize(device)
            forward.append(time.perf_counter_ns() - start)
        call.results = c.written(args, kwargs) if r is None and c.changes_inputs else r
        if i == 0:
            texts = {"input": described(args, kwargs), "output": described((call.results,))}
        if grads is None or not c.differentiable:
            continue
        try:
            outs = [(p, t) for p, t in walk(call.results) if isinstance(t, torch.Tensor) and t.requires_grad and t.grad_fn]
            pairs = call.match_grad_outputs(outs, grads["args"]) if outs else []
            inputs = [call.copies[id(t)] for _, t in c.leaves()]
            if not pairs:
                raise Refused("no result that a gradient could flow from")
        except Refused as e:
            why = str(e)
            continue
        synchronize(device)
        start = time.perf_counter_ns()
        got = torch.autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
        synchronize(device)
        backward.append(time.perf_counter_ns() - start)
        if i == 0:
            texts["grad_inputs"] = described(tuple(g for g in got if g is not None))
            texts["grad_outputs"] = described(tuple(g for _, g in pairs))
    talk.say(event="times", forward=forward, backward=backward, device=device, why_no_backward=why, **texts)
