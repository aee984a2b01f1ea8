# Calls saved as captures, as ditorch's OpCapture writes them: what --capture does, where it cannot read a device.


class SavedBackward(Backward):
    """What the backward of a call gets and gives."""

    def end(self):
        live, leaves = self.live, self.live.leaves()
        of = [path.replace("][", "[", 1) + "]" * ("][" in path) for path, _ in leaves]
        save_part(live.about, "grad_outputs", live.parts["grad_outputs"]["args"])
        save_part(live.about, "grad_inputs", [live.grads.get(id(t)) for _, t in leaves], of=of)


def save_call(live, edges, result, at, number, args, kwargs):
    kept = live.written(args, kwargs) if result is None and live.changes_inputs else result
    kept = rebuilt(kept, lambda x: cpu_copy(x) if isinstance(x, torch.Tensor) else x)
    save_results(live.about, "output", kept, last=True)
    count(("capture", live.name, None))
    watch_backward(live, edges, result, at, number, SavedBackward)


def capture(plan, call, args, kwargs, at):
    if plan.base in UNINITIALISED:
        raise Unchanged("gives memory as it was")
    with Number(plan) as number:
        live = Live(plan, args, kwargs)
        live.about = dict(op=plan.name, above="", id=number, time=live.began, where=list(at or ()))
        save_part(live.about, "input", live.args, live.kwargs)
        wanted = torch.is_grad_enabled() and not LEVEL.is_aten
        edges = {edge_of(t): id(live.copied[id(t)]) for t in tensors_in(args, kwargs) if t.requires_grad} if wanted else {}
        result = own_call(call, args, kwargs)
        quietly(save_call, live, edges, result, at, number, args, kwargs)
    return result


FEATURES["capture"] = capture
