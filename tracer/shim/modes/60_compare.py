# Functions judged while the program runs: as replay judges a captured call (Capture, Judge), of copies on the CPU.

WHOLE = RANDOM | RANDOM_INSIDE | DROPOUTS | UNINITIALISED | CASTS | BITS | {"scaled_dot_product_attention", "requires_grad_"}
QUICK, EXACT, IN_PLACE = 1, 2, 4


def how_quick(plan):
    """Whether its calls may be compared in C (modes_compare.c), whether only equal results are right, and whether it
    writes its first argument."""
    if not plan.is_asked or LEVEL.is_aten or plan.base in WHOLE or plan.base.startswith(("__", "as_strided")):
        return 0
    return QUICK | EXACT * (plan.base in MOVES) | IN_PLACE * plan.base.endswith("_")


def cpu_copy(t):
    """A tensor as a captured one is loaded."""
    with torch.no_grad():  # detach() of the lazy device before 2.0 forgets the shape of views
        new = t.to("cpu", copy=True)
    setattr(new, LOCATIONS, str(t.device))
    return new


class Live(Capture):
    """A call that is under way, in place of a captured one."""

    def __init__(self, plan, args, kwargs):
        self.dir, self.trust, self.functions = "", False, None
        self.copied = {}
        self.take(plan.name, rebuilt(tuple(args), self.input), rebuilt(dict(kwargs), self.input), None)
        self.function, self.base = plan.func, plan.base
        self.parts = {}
        self.grads = {}  # id of an input's copy: its gradient
        self.began = int(time.time())

    def input(self, x):
        if not isinstance(x, torch.Tensor):
            return x
        if id(x) not in self.copied:
            self.copied[id(x)] = cpu_copy(x).requires_grad_(x.requires_grad and not LEVEL.is_aten)
        return self.copied[id(x)]

    def resolve(self):
        pass

    def find_numbers(self, output):
        pass  # at this level they are Python's own

    def file(self, part):
        return self.parts.get(part)

    def grads_of(self, names, grads):
        return [(path, self.grads.get(id(t))) for path, t in self.leaves()]


def is_packed64(*tensors):
    return all(t.dtype == torch.float64 and t.is_contiguous() for t in tensors)


class PackedProbe(Probe):
    """In C, for tensors of float64 that lie packed."""

    def __init__(self, reference, moved, capture):
        if not is_packed64(reference, *moved):
            super().__init__(reference, moved, capture)
            return
        self.allowance = torch.empty_like(reference)
        self.inputs = probed(self.allowance, reference.detach(), *moved)
        self.reach = self.length(reference, capture) if self.inputs >= MANY else 1.0


class LiveJudge(Judge):
    probe = PackedProbe

    @staticmethod
    def noise_maker(seed, cap, part):
        slow, calls = noise_maker(seed, cap, part), [seed << 32]

        def noise(t, dtype):
            """`t` is a copy already."""
            if not is_packed64(t):
                return slow(t, dtype)
            calls[0] += 1
            return perturbed(t, calls[0], min(ROUNDOFF.get(dtype, 0), cap), part)

        return noise

    @staticmethod
    def rms(t):
        return extent(t)[0] if is_packed64(t) else rms(t)

    @staticmethod
    def overflow(reference, dtype, cpu):
        if is_packed64(reference) and dtype.is_floating_point and extent(reference)[1] < torch.finfo(dtype).max / 2:
            return reference
        return overflow(reference, dtype, cpu)

    def judge_outputs(self):
        if not self.request["backward"]:
            super().judge_outputs()

    def pairs(self):
        """(index, actual, reference, the CPU's or None) of what is judged; None where they do not match."""
        if not self.request["backward"]:
            parts = [list(walk(x)) for x in (self.actual_results, self.reference.results, self.cpu and self.cpu.results)]
            parts = parts if self.cpu else [*parts[:2], [("", None)] * len(parts[0])]
            return None if len({len(p) for p in parts}) > 1 else [
                (path.strip("[]").replace("][", ","), a, r, c) for (path, a), (_, r), (_, c) in zip(*parts)]
        if self.reference.why_no_grads or self.cpu and self.cpu.why_no_grads:
            return None
        cpu = self.cpu.input_grads if self.cpu else [("", None)] * len(self.actual_grads)
        return [(path, a, r, c) for (path, a), (_, r), (_, c) in zip(self.actual_grads, self.reference.input_grads, cpu)
                if a is not None]

    def is_settled(self):
        """Most calls are right whatever an error may be, or give the bits that the CPU gives. They need not be told of,
        unless one is further off than those before."""
        self.found, role = {}, "grad" if self.request["backward"] else "output"
        exact = role == "output" and self.capture.is_exact(self.actual_results)
        for index, a, r, cpu in self.pairs() or ():
            sure, bad, dtype = False, None, None
            if isinstance(a, torch.Tensor) and isinstance(r, torch.Tensor):
                sure, bad = surely_right(self.capture.name, a, r, exact) or (False, None)
                sure = sure or isinstance(cpu, torch.Tensor) and cpu.dtype == a.dtype and torch.equal(a, cpu)
                dtype = str(a.dtype)[6:]
            self.found[self.talk.key(role, index, dtype)] = sure, bad
        return self.talk.settle(self.found)

    def judge(self, grads):
        self.talk.told(self.found)
        super().judge(grads)


class Judged:
    """Takes the place of the talk while a call is judged: what is said of it goes to ditrace, which judges it again and
    prints, where it is new or worse than before; of all else there is only a count."""

    MOST = 65536
    strict = {}  # the same keys: how far off one was that was told or may have been, without an allowance
    worst = {}  # of each result of each function at each line: (verdict, how bad)
    silent = {}  # (name, file, line, function): [calls, gradients, tensors, not judged], since they were told

    def __init__(self, live, at, backward):
        self.live, self.at, self.backward = live, at or ("", 0, ""), backward
        self.said, self.tells, self.tensors_, self.not_judged = [], False, 0, 0
        self.wrong = self.newly_wrong = False

    def say(self, **what):
        self.said.append((what, None))
        if what["event"] == "skip":
            self.not_judged += 1
            self.see(what, 2, 0.0)
        elif what["event"] != "op":
            self.tensors_ += 1
            self.see(what, int(not what.get("equal")), 0.0)

    def tensors(self, what, actual, reference, cpu=None, allowance=None):
        self.said.append((what, dict(actual=actual, reference=reference, cpu=cpu, allowance=allowance)))
        verdict, bad = judged(self.live.name, actual, reference, cpu, allowance, what["exact"], what["reach"], what["scale"])
        self.tensors_ += verdict != 2
        self.not_judged += verdict == 2
        self.see(what, verdict, bad)

    def key(self, role, index, dtype):
        return (self.live.name, self.at, role, index, dtype)

    def settle(self, found):
        """Is all of this right, and not further off than what was told? {key: (right, how bad without any allowance or
        None)}"""
        if found and all(sure and bad is not None and bad <= self.strict.get(key, -1) for key, (sure, bad) in found.items()):
            self.tensors_ += len(found)
            return True
        return False

    def told(self, found):
        """What is told was so bad."""
        for key, (_, bad) in found.items():
            if bad is not None and len(self.strict) < self.MOST:
                self.strict[key] = max(bad, self.strict.get(key, 0))

    def see(self, what, verdict, bad):
        key = self.key(what["role"], what["index"], what.get("dtype"))
        was = self.worst.get(key)
        worse = was is None or verdict == 1 or (verdict == was[0] and bad > was[1])
        if worse and (was is not None or len(self.worst) < self.MOST):
            self.worst[key] = (max(verdict, was[0]) if was else verdict, bad)
        self.tells |= worse
        self.wrong |= verdict == 1
        self.newly_wrong |= verdict == 1 and (was is None or was[0] != 1)

    def end(self, number, described):
        """described(): what the call was given and gave, as shown() has it."""
        if not self.tells:
            counts_ = self.silent.setdefault((self.live.name, *self.at), [0, 0, 0, 0])
            for i, n in enumerate((not self.backward, self.backward, self.tensors_, self.not_judged)):
                counts_[i] += n
            return
        with LINK.lock:
            LINK.say(event="op", name=self.live.name, where=list(self.at), id=number, backward=self.backward,
                     shown=quietly(described) if self.newly_wrong else None)
            for what, tensors in self.said:
                if tensors is None:
                    LINK.say(**what)
                else:
                    LINK.tensors(what, **tensors)
            LINK.say(event="judged")


def tell_silent():
    """What was compared and not told."""
    for plan, at, calls, tensors in settled_calls():
        counts()["compare", plan.name, None] = counts().get(("compare", plan.name, None), 0) + calls
        counts_ = Judged.silent.setdefault((plan.name, *(at or ("", 0, ""))), [0, 0, 0, 0])
        counts_[0] += calls
        counts_[2] += tensors
    told, Judged.silent = Judged.silent, {}
    if told:
        LINK.say(event="compared", calls=[[*key, *n] for key, n in told.items()])


def widened_to(live):
    """What the reference computes in: {dtype of an input: its own}, as ditorch prints it."""
    found = {t.dtype: wide(t.dtype) for t in live.tensors if live.base not in BITS}
    found = {d: w for d, w in found.items() if d != w}
    return f"    cpu_dtype_cast_info(from:to): {found}" if found else ""


def rows_of_forward(judge_, given, result):
    """given: (args, kwargs) of the program's call."""
    c, ref = judge_.capture, judge_.reference

    def of_reference(x):
        return ref.copy(x) if isinstance(x, torch.Tensor) else ref.argument(x)  # which has made these before

    return rows_of(f"{c.name} inputs", *given) + rows_of(f"{c.name} outputs", result) + rows_of(
        f"{c.name} inputs(cpu)", convert(c.args, of_reference), convert(c.kwargs, of_reference)) + rows_of(
        f"{c.name} outputs(cpu)", ref.results)


def rows_of_backward(judge_):
    """Of the program's gradients there are copies only."""
    c = judge_.capture
    given = [g if g is None else g.detach() for g in c.parts["grad_outputs"]["args"]]
    return rows_of(f"{c.name} grad_output(cpu)", given) + rows_of(
        f"{c.name} grad_inputs", tuple(c.grads.get(id(t)) for _, t in c.leaves())) + rows_of(
        f"{c.name} grad_inputs(cpu)", tuple(g for _, g in judge_.reference.input_grads))


def judge(live, backward, at, number, given=None, result=None):
    request = dict(forward_only=not backward, backward=backward, of="captured", device=None, trust=False)
    state, talk = torch.get_rng_state(), Judged(live, at, backward)
    role = "grad" if backward else "output"
    try:
        with Busy(), torch.enable_grad():
            judge_ = LiveJudge(live, request, talk)
            try:
                judge_.run()
            except Refused as e:
                talk.say(event="skip", role=role, index="", reason=str(e))
            except Exception as e:
                talk.say(event="skip", role=role, index="", reason=f"the reference failed: {first_line(e)}")
            talk.end(number, lambda: shown(live.name, number, at, described_in(
                rows_of_backward(judge_) if backward else rows_of_forward(judge_, given, result)), about=widened_to(live)))
            if talk.wrong and Saved.wants((live.name, at, backward)):
                with LINK.lock:
                    quietly(save_judged, judge_, at, number, backward)
    finally:
        torch.set_rng_state(state)


# --- gradients: what the nodes of one call give, at the edges where they leave it

def edge_of(t):
    if t.grad_fn is not None:
        return t.grad_fn, t.output_nr
    with torch.enable_grad():
        return t.view_as(t).grad_fn.next_functions[0][0], 0


def nodes_between(first, edges, most=64):
    """[(node, place, id of the input)] of all that leaves the nodes from `first` on to one of the edges; None where
    it cannot be told."""
    found, todo, seen = [], [first], set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > most:
            return None
        for k, (to, nr) in enumerate(node.next_functions):
            if to is None:
                continue
            if (to, nr) in edges:
                found.append((node, k, edges[to, nr]))
            elif not to.next_functions:
                return None  # the gradient of a leaf that is no argument
            else:
                todo.append(to)
    return found


class Backward:
    """Collects what the backward of one call gets and gives, and judges it when all is there."""

    def __init__(self, live, at, number, shapes, taken):
        self.live, self.at, self.number, self.shapes, self.missing = live, at, number, shapes, 0
        self.taken = taken
        backward_comes(taken)

    def came(self, judged=False, came=backward_came):
        taken, self.taken = self.taken, 0
        came(taken, judged)

    __del__ = came

    def watch(self, node, leaving):
        places = {}
        for n, k, of in leaving:
            places.setdefault(n, []).append((k, of))
        places.setdefault(node, [])
        self.missing = len(places)
        for n, where in places.items():
            n.register_hook(self.hook(n is node, where))

    def hook(self, is_first, where):
        done = []

        def called(grad_inputs, grad_outputs):
            if done or is_out() or is_busy():
                return
            done.append(True)
            quietly(spending, self.taken, True, self.take, is_first, where, grad_inputs, grad_outputs)

        return called

    def take(self, is_first, where, grad_inputs, grad_outputs):
        if is_first:
            self.live.parts["grad_outputs"] = {"args": [None if g is None else cpu_copy(g) for g in grad_outputs]}
        for k, of in where:
            g = grad_inputs[k]
            if g is None:
                continue
            g = as_autograd_sums(cpu_copy(g), self.shapes[of])
            setattr(g, LOCATIONS, str(grad_inputs[k].device))
            was = self.live.grads.get(of)
            if was is not None:  # two ways to the same input
                at, g = getattr(g, LOCATIONS), was + g
                setattr(g, LOCATIONS, at)
            self.live.grads[of] = g
        self.missing -= 1
        if not self.missing and self.live.grads and "grad_outputs" in self.live.parts:
            self.live.parts["grad_inputs"] = {"of": (), "args": ()}
            self.end()
            self.came(True)
            self.live = None

    def end(self):
        judge(self.live, True, self.at, self.number)


def watch_backward(live, edges, result, at, number, kind=Backward, taken=0):
    outs = [t for t in tensors_in(result) if t.requires_grad and t.grad_fn is not None]
    if not edges or not outs or len({t.grad_fn for t in outs}) != 1 or live.changes_inputs:
        return
    leaving = nodes_between(outs[0].grad_fn, edges)
    if leaving:
        shapes = {id(c): c.detach() for c in live.copied.values()}
        kind(live, at, number, shapes, taken).watch(outs[0].grad_fn, leaving)


def is_autocast():
    if torch.is_autocast_enabled():
        return True
    return torch.is_autocast_enabled("cpu") if hasattr(torch, "get_autocast_dtype") else torch.is_autocast_cpu_enabled()


BEYOND = "is beyond the budget"


def never_compared(plan):
    """Why no call of a function is compared, whatever its arguments; None: they may be."""
    if plan.base in VIEWS or plan.base.startswith("as_strided"):
        return "is a view"
    if plan.base in MAKE:
        return "makes a tensor"
    return "may draw random numbers" if plan.base in RANDOM_INSIDE else None


def compare_call(plan, call, args, kwargs, at):
    tensors = tensors_in(args, kwargs)
    reason = never_compared(plan) or (None if tensors else "makes a tensor")
    if reason:
        raise Unchanged(reason)
    plan.calls = getattr(plan, "calls", 0) + 1
    if (plan.calls - 1) % LINK.settings["sample"]:
        raise Unchanged("is not in the sample")
    if not plan.is_asked and not takes(plan):
        raise Unchanged(BEYOND)
    if any(isinstance(x, torch.Generator) for x in each((args, kwargs))):
        raise Unchanged("may draw random numbers")
    if is_autocast():
        raise Unchanged("runs under autocast")
    if torch._C._len_torch_dispatch_stack():
        raise Unchanged("runs under a TorchDispatchMode of the program")
    if any(t._base is not None and t.requires_grad for t in tensors) and plan.base.endswith("_"):
        raise Unchanged("changes a view that has a history")
    number, began = call_number(), time.perf_counter_ns()
    live = Live(plan, args, kwargs)
    try:
        live.check_comparable()
    except Refused as e:
        raise Unchanged(f"cannot be compared: {e}") from None
    edges = edges_of(live, tensors)
    state = torch.get_rng_state()
    taken = number_taken()
    spend(taken, False, time.perf_counter_ns() - began)
    try:
        result = call(*args, **kwargs)
    except Exception as e:
        raise Raised(e) from None
    if not torch.equal(state, torch.get_rng_state()):
        quietly(count, ("compare", plan.name, "draws random numbers"))
        return result
    quietly(spending, taken, False, compare_result, live, edges, result, at, number, args, kwargs, taken)
    return result


def edges_of(live, tensors):
    """{edge where a gradient leaves: id of the copy of the input it is of}"""
    if not torch.is_grad_enabled() or LEVEL.is_aten:  # the operators of a backward come by themselves
        return {}
    return {edge_of(t): id(live.copied[id(t)]) for t in tensors if t.requires_grad}


def compare_made(plan, args, kwargs, at, result):
    """A call that was made already, and has changed none of its arguments."""
    live = Live(plan, args, kwargs)
    compare_result(live, edges_of(live, tensors_in(args, kwargs)), result, at, call_number(), args, kwargs, number_taken())


def watch_made(plan, args, kwargs, at, result):
    """The same where only the backward is still to be judged."""
    live = Live(plan, args, kwargs)
    keep_results(live, result, args, kwargs)
    watch_backward(live, edges_of(live, tensors_in(args, kwargs)), result, at, call_number(), taken=number_taken())


def spending(taken, is_backward, f, *args):
    """What it does counts as time of comparing."""
    began = time.perf_counter_ns()
    try:
        f(*args)
    finally:
        spend(taken, is_backward, time.perf_counter_ns() - began)


def copied_results(live, result, args, kwargs):
    given = live.written(args, kwargs) if result is None and live.changes_inputs else result
    return rebuilt(given, lambda x: cpu_copy(x) if isinstance(x, torch.Tensor) else x)


def keep_results(live, result, args, kwargs):
    live.parts["output"] = {"args": [copied_results(live, result, args, kwargs)]}


def compare_result(live, edges, result, at, number, args, kwargs, taken):
    count(("compare", live.name, None))
    keep_results(live, result, args, kwargs)
    judge(live, False, at, number, (args, kwargs), result)
    live.differentiable = not live.has_out and any(t.requires_grad for t in live.tensors)
    watch_backward(live, edges, result, at, number, taken=taken)


FEATURES["compare"] = compare


def start_budget():
    budget(LINK.settings["budget"])
