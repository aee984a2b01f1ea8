# Functions judged while the program runs: as replay judges a captured call (Capture, Judge), of copies on the CPU.

RANDOM_INSIDE = set("multi_head_attention_forward lstm gru rnn_tanh rnn_relu".split())


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


class LiveJudge(Judge):
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


# The runner's own parts, which C does for tensors of float64 that lie packed.
slow_noise_maker, SlowProbe, slow_rms, slow_overflow = noise_maker, Probe, rms, overflow


def is_packed64(*tensors):
    return all(t.dtype == torch.float64 and t.is_contiguous() for t in tensors)


def noise_maker(seed, cap, part):
    slow, calls = slow_noise_maker(seed, cap, part), [seed << 32]

    def noise(t, dtype):
        """`t` is a copy already."""
        if not is_packed64(t):
            return slow(t, dtype)
        calls[0] += 1
        return perturbed(t, calls[0], min(ROUNDOFF.get(dtype, 0), cap), part)

    return noise


class Probe(SlowProbe):
    def __init__(self, reference, moved, capture):
        if not is_packed64(reference, *moved):
            super().__init__(reference, moved, capture)
            return
        self.allowance = torch.empty_like(reference)
        self.inputs = probed(self.allowance, reference.detach(), *moved)
        self.reach = self.length(reference, capture) if self.inputs >= MANY else 1.0


def rms(t):
    return extent(t)[0] if is_packed64(t) else slow_rms(t)


def overflow(reference, dtype, cpu):
    if is_packed64(reference) and dtype.is_floating_point and extent(reference)[1] < torch.finfo(dtype).max / 2:
        return reference
    return slow_overflow(reference, dtype, cpu)


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
        self.wrong = False

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

    def end(self, number):
        if not self.tells:
            counts_ = self.silent.setdefault((self.live.name, *self.at), [0, 0, 0, 0])
            for i, n in enumerate((not self.backward, self.backward, self.tensors_, self.not_judged)):
                counts_[i] += n
            return
        with LINK.lock:
            LINK.say(event="op", name=self.live.name, where=list(self.at), id=number, backward=self.backward)
            for what, tensors in self.said:
                if tensors is None:
                    LINK.say(**what)
                else:
                    LINK.tensors(what, **tensors)
            LINK.say(event="judged")


def tell_silent():
    """What was compared and not told."""
    told, Judged.silent = Judged.silent, {}
    if told:
        LINK.say(event="compared", calls=[[*key, *n] for key, n in told.items()])


def judge(live, backward, at, number):
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
            talk.end(number)
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

    def __init__(self, live, at, number, shapes):
        self.live, self.at, self.number, self.shapes, self.missing = live, at, number, shapes, 0

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
            quietly(spending, self.take, is_first, where, grad_inputs, grad_outputs)

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
            self.live = None

    def end(self):
        judge(self.live, True, self.at, self.number)


def watch_backward(live, edges, result, at, number, kind=Backward):
    outs = [t for t in tensors_in(result) if t.requires_grad and t.grad_fn is not None]
    if not edges or not outs or len({t.grad_fn for t in outs}) != 1 or live.changes_inputs:
        return
    leaving = nodes_between(outs[0].grad_fn, edges)
    if leaving:
        shapes = {id(c): c.detach() for c in live.copied.values()}
        kind(live, at, number, shapes).watch(outs[0].grad_fn, leaving)


NUMBER = [0]


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


def compare(plan, call, args, kwargs, at):
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
    NUMBER[0] += 1
    number, began = NUMBER[0], time.perf_counter_ns()
    live = Live(plan, args, kwargs)
    try:
        live.check_comparable()
    except Refused as e:
        raise Unchanged(f"cannot be compared: {e}") from None
    wanted = torch.is_grad_enabled() and not LEVEL.is_aten  # the operators of a backward come by themselves
    edges = {edge_of(t): id(live.copied[id(t)]) for t in tensors if t.requires_grad} if wanted else {}
    state = torch.get_rng_state()
    spend(time.perf_counter_ns() - began)
    try:
        result = call(*args, **kwargs)
    except Exception as e:
        raise Raised(e) from None
    if not torch.equal(state, torch.get_rng_state()):
        quietly(count, ("compare", plan.name, "draws random numbers"))
        return result
    quietly(spending, compare_result, live, edges, result, at, number, args, kwargs)
    return result


def spending(f, *args):
    """What it does counts as time of comparing."""
    began = time.perf_counter_ns()
    try:
        f(*args)
    finally:
        spend(time.perf_counter_ns() - began)


def compare_result(live, edges, result, at, number, args, kwargs):
    count(("compare", live.name, None))
    kept = live.written(args, kwargs) if result is None and live.changes_inputs else result
    kept = rebuilt(kept, lambda x: cpu_copy(x) if isinstance(x, torch.Tensor) else x)
    live.parts["output"] = {"args": [kept]}
    judge(live, False, at, number)
    live.differentiable = not live.has_out and any(t.requires_grad for t in live.tensors)
    watch_backward(live, edges, result, at, number)


FEATURES["compare"] = compare


def start_budget():
    budget(LINK.settings["budget"], OWN_FILES)
