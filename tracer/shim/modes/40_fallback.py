# Functions computed on the CPU, their results brought back to the device.

HALVES = (torch.float16, torch.bfloat16)
NO_HALF = set()  # (function, dtype) that the CPU has no kernel for
FALLBACKS = Seen()


class OnCpu(Stand):
    """The arguments of one call on the CPU."""

    def __init__(self, widened):
        super().__init__()
        self.widened = widened

    def of(self, x):
        if isinstance(x, torch.device):
            return torch.device("cpu")
        if isinstance(x, torch.Generator) and x.device.type != "cpu":
            raise Unchanged("has a generator of the device")
        if self.widened and isinstance(x, torch.dtype) and x in HALVES:
            return torch.float32
        return super().of(x)

    def made(self, x):
        return x.to("cpu", torch.float32 if self.widened and x.dtype in HALVES else x.dtype, copy=True)


def computed(call, args, kwargs, widened):
    cpu = OnCpu(widened)
    return cpu, call(*rebuilt(tuple(args), cpu.of), **rebuilt(dict(kwargs), cpu.of))


def has_no_half(e):
    text = str(e)
    return "not implemented for" in text and ("Half" in text or "BFloat16" in text)


def on_cpu(plan, call, args, kwargs, tensors):
    half = next((t.dtype for t in tensors if t.dtype in HALVES), None)
    key = (plan.name, half)
    if half is None or key not in NO_HALF:
        try:
            return computed(call, args, kwargs, False)
        except RuntimeError as e:
            if half is None or not has_no_half(e):
                raise
    done = computed(call, args, kwargs, True)
    NO_HALF.add(key)
    return done


def fallback(plan, call, args, kwargs, at):
    tensors = tensors_in(args, kwargs)
    device = next((t.device for t in tensors if t.device.type != "cpu"), None)
    if plan.base in VIEWS:
        raise Unchanged("is a view")
    if plan.base in MAKE or not tensors:
        raise Unchanged("makes a tensor of none")
    if device is None:
        raise Unchanged("is on the CPU")
    if len({t.device for t in tensors if t.device.type != "cpu"}) > 1:
        raise Unchanged("is on several devices")
    cpu, result = on_cpu(plan, call, args, kwargs, tensors)
    cpu.check(result)
    given = rebuilt(result, Back(cpu, device, tensors).of)
    rows = None
    if FALLBACKS.is_new(plan.name, at, args, kwargs):
        rows = rows_of(f"{plan.name} input(device)", args, kwargs) + rows_of(
            f"{plan.name} input(cpu)", rebuilt(tuple(args), cpu.of), rebuilt(dict(kwargs), cpu.of))
    write_back(cpu.written(plan, args, kwargs))
    quietly(count, ("fallback", plan.name, None))
    if rows is not None:
        quietly(lambda: tell_table(plan.name, at, rows + rows_of(f"{plan.name} output(device)", given) + rows_of(
            f"{plan.name} output(cpu)", result)))
    return given


class Back:
    """Results brought to the device. What is an argument stays that argument."""

    def __init__(self, cpu, device, tensors):
        self.cpu, self.device, self.done = cpu, device, {}
        self.half = next((t.dtype for t in tensors if t.dtype in HALVES), None)

    def of(self, x):
        if not isinstance(x, torch.Tensor):
            return x
        original = self.cpu.original_of(x)
        if original is not None:
            return original
        if id(x) not in self.done:
            dtype = self.half if self.cpu.widened and x.dtype == torch.float32 else x.dtype
            self.done[id(x)] = x.to(self.device, dtype)
        return self.done[id(x)]


FEATURES["fallback"] = fallback
