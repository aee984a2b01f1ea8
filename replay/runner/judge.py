"""How a capture is judged."""
import contextlib

import torch

from ditrace_runner import choices, memory
from ditrace_runner.allowed import Allowed, cut_off, device_of
from ditrace_runner.call import Call, convert, gapped, is_float, transposed, walk, wide
from ditrace_runner.casts import in_dtypes, tensors_in
from ditrace_runner.errors import Refused, Skipped, first_line
from ditrace_runner.floors import floors
from ditrace_runner.functions import ORDERED, PRIVATE, STATISTICS
from ditrace_runner.load import LOCATIONS
from ditrace_runner.memory import is_short
from ditrace_runner.probe import HALVES, PROBES, ROUNDOFF, Probe, noise_maker, off_by, overflow, plus, rms, roundoff_of, with_witness


def as_autograd_sums(g, edge):
    """A gradient as the node has given it, before autograd sums what was broadcast."""
    if not isinstance(g, torch.Tensor) or not isinstance(edge, torch.Tensor) or g.shape == edge.shape:
        return g
    try:
        edge.expand(g.shape)
    except RuntimeError:
        return g
    return g.sum_to_size(edge.shape)


def detached(x):
    return x.detach() if isinstance(x, torch.Tensor) else x


def no_results(raised):
    """Why a captured call has none."""
    if raised is None:
        return Refused("the capture has no output.pth: the call had not ended, or it cannot be saved; --of rerun runs the op instead")
    return Skipped(" ".join(["the call raised", *map(str, raised["args"] or ["an exception"])]))


def alike(a, b):
    """Are these surely meant to be the same numbers?"""
    if a.shape != b.shape or not a.numel():
        return False
    a, b = (torch.nan_to_num(torch.view_as_real(t.detach().resolve_conj()) if t.is_complex() else t.detach().double()).double()
            for t in (a, b))
    return bool((a - b).norm() <= 0.05 * b.norm())


def are_equal(a, b):
    """PyTorch 1.13 cannot tell it of complex32."""
    return len(a) == len(b) and all(x.dtype == y.dtype != torch.complex32 and x.layout == y.layout == torch.strided and
                                    x.device == y.device and torch.equal(x, y) for x, y in zip(a, b))


def with_note(say, note):
    return {**say, "note": f"{say['note']}; {note}" if "note" in say else note}


THREADS = (1, 2, 4)  # among which the CPU's sums are split
STACKS = 64 << 20  # bytes; a process that cannot start a thread is ended by the library that wants it


class Judge:
    """One request for the accuracy of a call."""

    # What the numbers are moved and measured with; a subclass may have faster ones.
    noise_maker, probe, rms, overflow = staticmethod(noise_maker), Probe, staticmethod(rms), staticmethod(overflow)

    may_switch = True  # settings of PyTorch that are the process's
    knows_settings = False  # of the process that made a captured call

    def __init__(self, capture, request, talk):
        self.capture, self.request, self.talk = capture, request, talk
        self.role = self.free_grads = self.single = self.rounded = None

    def run(self):
        c = self.capture
        c.resolve()
        c.check_comparable()
        grads = None if self.request["forward_only"] else c.file("grad_outputs")
        c.differentiable = c.differentiable and grads is not None
        output = c.file("output")
        if output is None and self.request["of"] == "captured":
            raise no_results(c.file("raised"))
        c.find_numbers(output)
        c.find_autocast(output)
        self.run_actual(grads)
        self.reference = self.in_float64(grads)
        self.cpu = None
        if self.is_settled():
            return
        self.cpu = self.same_dtype(grads)
        if not self.is_settled():
            self.judge(grads)

    def is_settled(self):
        """Is what was computed so far enough for a verdict?"""
        return False

    def judge(self, grads):
        c = self.capture
        cap = max([ROUNDOFF[t.dtype] for t in self.floats(self.actual_results)] or [0])
        self.moved, self.cut, self.split, self.as_given = [], None, 0, None
        self.allowed = Allowed(c, device_of(self.floats(self.actual_results), self.request["of"]),
                               self.knows_settings or self.request["of"] != "captured")
        if self.cpu is not None and self.cpu.dtype is None and self.allowed.knows({t.dtype for t in self.floats(self.actual_results)}):
            self.cpu = self.rounded = self.as_rounded(grads)
        if cap and not c.is_of_bits() and any(is_float(t) for t in c.tensors):
            self.moved = self.perturbed(grads, cap)
            if self.moved and not self.is_cpus():
                split = self.other_threads(grads)
                self.moved += self.other_layouts(grads) + split
                self.split = len(split)
            if self.moved and self.allowed.tf32:
                self.cut = self.variant(grads, to64=True, noise=cut_off)
                self.moved.append(self.cut)
        self.judge_outputs()
        if grads is not None:
            self.as_given = self.from_given(grads)
            self.moved += [self.as_given] if self.as_given else []
            self.given = grads["args"]
            self.judge_grads()

    def as_rounded(self, grads):
        """The CPU in float32 and rounded: its own kernel may add up in the half type (that of PyTorch 1.13 without AVX-512)."""
        call = self.variant(grads, dtype=torch.float32)
        call.results = in_dtypes(call.results, [t.dtype for t in tensors_in(self.cpu.results)])
        return call

    def is_cpus(self):
        """Are all results bit by bit the CPU's, which no other witness makes more right?"""
        if self.cpu is None or self.cpu.dtype is not None:
            return False
        pairs = [(self.actual_results, self.cpu.results), (self.actual_grads or (), self.actual_grads and self.cpu.input_grads),
                 (self.actual_edges or (), self.actual_edges and self.cpu.edges)]
        return all(are_equal(tensors_in(a), tensors_in(b)) for a, b in pairs)

    def in_float64(self, grads):
        if self.capture.is_of_bits():
            return self.variant(grads)
        try:
            return self.variant(grads, to64=True)
        except Refused:
            raise
        except Exception as e:  # an operator in Python may raise anything
            if isinstance(e, NotImplementedError) and "'CPU' backend" in str(e):
                raise Refused("there is no reference: the operator has no kernel for the CPU") from None
            if is_short(e) or self.same_dtype(grads) is None:
                raise
            raise Refused("there is no reference: what runs in the captured dtype does not in float64: "
                          f"{first_line(e)}") from None

    def from_given(self, grads):
        """With the backward of the results that the call gave, where that reads them; None: it does not."""
        if not self.moved or not self.reference.saved.has_results:
            return None
        try:
            return self.variant(grads, to64=True, given=[t.detach().cpu() for t in tensors_in(self.actual_results)])
        except Exception as e:
            if is_short(e):
                raise
            return None

    def perturbed(self, grads, cap):
        """With all inputs moved; none where the op does not take them, as one that wants a mask of ones."""
        try:
            return [self.variant(grads, to64=True, noise=self.noise_maker(1 + i, cap, i == PROBES - 1)) for i in range(PROBES)]
        except Exception as e:
            if is_short(e):
                raise
            return []

    def other_layouts(self, grads):
        """In half types the CPU's kernels for other layouts, or those without oneDNN, may round in between where that for
        this one does not."""
        if self.cpu is None or self.cpu.dtype is not None or not self.capture.dtypes() & HALVES:
            return []
        found = []
        for layout, has_mkldnn in ((gapped, True), (transposed, True), (None, False)):
            if not has_mkldnn and not self.may_switch:
                continue
            try:
                with torch.backends.mkldnn.flags(enabled=False) if not has_mkldnn else contextlib.nullcontext():
                    found.append(self.variant(grads, layout=layout))
            except Exception as e:
                if is_short(e):
                    raise
        return found

    def other_threads(self, grads):
        """Kernels of the CPU whose sums each thread has a part of, as those of weights' gradients, err otherwise on another
        number of threads."""
        left = memory.room()
        if self.cpu is None or self.cpu.dtype is not None or not self.may_switch or left is not None and left < STACKS:
            return []
        from ditrace_runner.threads import on_threads  # not in a program that is judged as it runs
        found = []
        for threads in (n for n in THREADS if n != torch.get_num_threads()):
            try:
                found.append(on_threads(threads, self.variant, grads))
            except Exception as e:
                if is_short(e):
                    raise
        return found

    def floats(self, results):
        return [t for _, t in walk(results) if isinstance(t, torch.Tensor) and t.dtype in ROUNDOFF]

    def variant(self, grads, **how):
        call = Call(self.capture, reference=True, **how)
        call.forward()
        call.why_no_grads = None
        if grads is not None:
            try:
                call.backward(grads["args"])
            except Refused as e:
                call.why_no_grads = str(e)
        return call

    def same_dtype(self, grads):
        """The CPU in the same dtype, or where it cannot, in float32 and rounded."""
        c = self.capture
        in_grad = not c.differentiable and not c.has_out and c.was_in_grad(self.actual_results)
        try:
            call = self.variant(grads, in_grad=in_grad)
            call.results = convert(call.results, detached) if in_grad else call.results
            return call
        except Refused:
            raise
        except Exception as e:  # as above
            if is_short(e):
                raise
        try:
            return self.variant(grads, dtype=torch.float32)
        except Exception as e:
            if is_short(e):
                raise
            return None

    def run_actual(self, grads):
        c = self.capture
        self.actual_edges = self.actual_grads = self.actual_node = None
        self.why_no_actual = None
        if self.request["of"] == "captured":
            out = c.file("output")
            self.actual_results = out["args"][0] if len(out["args"]) == 1 else tuple(out["args"])
            if self.actual_results is None and out.get("kwargs"):
                self.actual_results = out["kwargs"]  # what the op has written to
            self.actual_results = c.found.narrowed(self.actual_results) if c.found else self.actual_results
            got = None if grads is None else c.file("grad_inputs")
            if got is not None and got.get("of") is not None:
                self.actual_grads = c.grads_of(got["of"], got["args"])
            elif got is not None:
                self.actual_edges, self.actual_node = list(got["args"]), c.node("grad_inputs")
            return
        call = Call(c, device=self.request["device"])
        try:
            call.forward()
        except Exception as e:  # an operator in Python may raise anything
            if is_short(e) or c.file("raised") is None:
                raise
            raise Skipped(f"the call raised an exception, and does so again: {first_line(e)}") from None
        if grads is not None:
            try:
                call.backward(grads["args"])
                self.actual_grads = call.input_grads
            except Refused as e:
                self.why_no_actual = str(e)
        self.actual_results = call.results

    # --- one tensor after the other

    def judge_outputs(self):
        self.role = "output"
        if self.actual_results is None and self.capture.changes_inputs:
            self.talk.say(event="skip", role=self.role, index="",
                          reason="the op returns nothing, and output.pth has not what it wrote; --of rerun runs it")
            return
        actual, ref = list(walk(self.actual_results)), list(walk(self.reference.results))
        cpu = list(walk(self.cpu.results)) if self.cpu else [(p, None) for p, _ in ref]
        moved = [list(walk(m.results)) for m in self.moved]
        if len(actual) != len(ref):
            self.talk.say(event="mismatch", role=self.role, index="", reason=f"{len(actual)} results instead of {len(ref)}")
            return
        exact = self.capture.is_exact(self.actual_results)
        for i, ((path, a), (_, r)) in enumerate(zip(actual, ref)):
            if i in PRIVATE.get(self.capture.base, ()):
                self.talk.say(event="skip", role=self.role, index=path.strip("[]"),
                              reason="only the operator's own backward reads this result, which it does not define")
            else:
                self.one(path, a, r, cpu[i][1], [m[i][1] for m in moved if i < len(m)], exact, i)

    def judge_grads(self):
        self.role = "grad"
        why = self.reference.why_no_grads or self.why_no_actual or (
            self.capture.found and not self.capture.found.whole and "what autocast rounds on the way to it is not known")
        if why:
            self.talk.say(event="skip", role=self.role, index="", reason=why)
            return
        self.free_grads = choices.why_free_gradients(self.capture, self.given)
        cpu_ok = self.cpu is not None and not self.cpu.why_no_grads
        if self.actual_edges is not None:
            self.judge_edges(cpu_ok)
            return
        if self.actual_grads is None:
            if self.request["of"] == "captured":
                self.talk.say(event="skip", role=self.role, index="", reason="the capture has no grad_inputs.pth")
            return
        for i, (path, a) in enumerate(self.actual_grads):
            if a is None and self.request["of"] == "captured":  # nobody asked for it
                continue
            self.one(path, a, self.reference.input_grads[i][1], self.cpu.input_grads[i][1] if cpu_ok else None,
                     [m.input_grads[i][1] for m in self.moved], False, i)

    def judge_edges(self, cpu_ok):
        """Captured gradients are those of the edges of one node. They are the reference's, one by one, when it has
        that node; where the capture does not name it, when the shapes agree and no value says otherwise."""
        got, edges, known = self.actual_edges, self.reference.edges, self.actual_node
        fits = len(got) == len(edges)
        if fits and known == self.reference.node:
            got = [as_autograd_sums(g, e) for g, e in zip(got, edges)]
        fits = fits and known in (None, self.reference.node) and all(
            g is None or e is None or g.shape == e.shape for g, e in zip(got, edges))
        for i, g in enumerate(got):
            if not isinstance(g, torch.Tensor):
                continue
            if fits and edges[i] is not None and not known and self.is_elsewhere(g, edges[i]):
                self.refuse_gradient(i, "by its place it is that of one input, by its numbers that of another")
            elif fits and edges[i] is not None:
                self.one(self.edge_name(edges[i], i), g, edges[i],
                         self.cpu.edges[i] if cpu_ok and len(self.cpu.edges) == len(edges) else None,
                         [m.edges[i] for m in self.moved if m.edges and len(m.edges) == len(edges)], False, i)
            elif not fits or edges[i] is not None:
                self.judge_by_value(g, i, cpu_ok)

    def is_elsewhere(self, g, edge):
        """Is this gradient, which is not that of the edge at its place, that of another one, or of an input?"""
        others = [e for e in self.reference.edges if isinstance(e, torch.Tensor) and e is not edge]
        others += [r for _, r in self.reference.input_grads if r is not None]
        return not alike(g, edge) and any(alike(g, o) or (o.dim() > 1 and alike(g, o.transpose(-1, -2))) for o in others)

    def refuse_gradient(self, i, why):
        self.talk.say(event="skip", role=self.role, index=str(i),
                      reason=f"which input this gradient belongs to cannot be told: {why}")

    def judge_by_value(self, g, i, cpu_ok):
        """The node of the capture is another one than here: a gradient is that of an input when it is about that,
        and of no other."""
        like = [k for k, (_, r) in enumerate(self.reference.input_grads) if r is not None and alike(g, r)]
        if len(like) != 1:
            self.refuse_gradient(i, f"the capture has the gradients of {self.actual_node or 'a node that it does not name'}, "
                                 f"here the op has {self.reference.node}")
            return
        k = like[0]
        self.one(self.reference.input_grads[k][0], g, self.reference.input_grads[k][1],
                 self.cpu.input_grads[k][1] if cpu_ok else None, [m.input_grads[k][1] for m in self.moved], False, k)

    def edge_name(self, edge, i):
        names = [p for p, g in self.reference.input_grads if g is not None and g.shape == edge.shape and
                 torch.equal(g, edge.detach())]
        return names[0] if len(names) == 1 else str(i)

    def notes(self):
        """How what was run differs from what the capture says."""
        c = self.capture
        if c.numbers and self.role == "output":
            yield "a tensor without dimensions was a number of Python's"
        if c.is_autocast:
            yield f"inputs were rounded to {str(c.dtype)[6:]}" + (" by autocast" if c.tells_autocast else ", as autocast does")
        for dtype in dict.fromkeys(c.cast_to.values()):
            yield f"inputs were rounded to {str(dtype)[6:]} by autocast"
        if c.found and c.found.narrow and self.role == "output":
            yield f"what is inside of it was rounded to {str(c.found.narrow[0])[6:]} under autocast"

    def one(self, path, a, r, cpu, moved, exact, place):
        index = path.strip("[]").replace("][", ",") if self.role == "output" else path
        say = dict(role=self.role, index=index)
        free = choices.why_free(self.capture, place) if self.role == "output" else self.free_grads
        if free:
            say["choice"] = free
        for note in self.notes():
            say = with_note(say, note)
        if isinstance(a, torch.Tensor) != isinstance(r, torch.Tensor):
            self.talk.say(event="mismatch", reason=f"{type(a).__name__} instead of {type(r).__name__}", **say)
            return
        if not isinstance(a, torch.Tensor):
            self.value(a, r, cpu, say)
            return
        if a.shape != r.shape:
            self.talk.say(event="mismatch", reason=f"shape {list(a.shape)} instead of {list(r.shape)}", **say)
            return
        cpu = self.in_float32(place) if self.is_statistic(a, cpu, place) else cpu
        has_dtypes = self.cpu and (self.cpu.dtype is None or self.cpu is self.rounded)
        wanted = cpu.dtype if isinstance(cpu, torch.Tensor) and has_dtypes else None
        if wanted is not None and a.dtype != wanted and self.request["of"] == "captured" and self.role == "output":
            self.talk.say(event="mismatch", reason=f"dtype {str(a.dtype)[6:]} instead of {str(wanted)[6:]}", **say)
            return
        say["device"] = getattr(a, LOCATIONS, str(a.device)) if self.request["of"] == "captured" else str(a.device)
        a, r = a.detach().cpu().resolve_conj(), r.detach().resolve_conj()
        cpu = cpu.detach().resolve_conj() if isinstance(cpu, torch.Tensor) and cpu.shape == r.shape else None
        if a.layout != torch.strided or r.layout != torch.strided or a.is_quantized:
            self.talk.say(event="skip", reason=f"tensors of layout {a.layout} are not compared", **say)
            return
        if self.role == "output" and choices.are_in_any_order(self.capture, place, r):
            a, cpu, *moved = (choices.in_order_of(x, r) if isinstance(x, torch.Tensor) and x.shape == r.shape else x
                              for x in (a, cpu, *moved))
        self.tensor(a, r, cpu, moved, exact, place, say)

    def is_statistic(self, a, cpu, place):
        """Is it one that a device gives in float32, and the CPU in less?"""
        return (self.role == "output" and place in STATISTICS.get(self.capture.base, ()) and a.dtype == torch.float32
                and isinstance(cpu, torch.Tensor) and cpu.dtype in HALVES)

    def in_float32(self, place):
        """One of the results that the CPU has, computed in float32."""
        self.single = self.single or self.variant(None, dtype=torch.float32)
        return [t for _, t in walk(self.single.results)][place]

    def tensor(self, a, r, cpu, moved, exact, place, say):
        c = self.capture
        dtype = str(a.dtype)[6:]
        if c.base in ORDERED and self.role == "output" and (place == 1 or c.base.startswith("arg")):
            if self.ties(a, r, say) is not None:
                return
        if c.base == "mode" and self.role == "output" and self.is_as_often(a, r, place):
            self.tied(r, say)
            return
        if not is_float(a):
            if cpu is not None and cpu.dtype == a.dtype and torch.equal(a, cpu):
                r = cpu
            self.talk.tensors(dict(event="tensor", dtype=dtype, exact=True, reach=1.0, common=0.0, scale=0.0, **say),
                              actual=a, reference=r.to(a.dtype) if r.dtype == torch.bool or a.dtype == torch.bool else r,
                              cpu=cpu if cpu is not None and cpu.dtype == a.dtype else None)
            return
        if cpu is not None and cpu.dtype != a.dtype:
            cpu = cpu.to(a.dtype)
        r = self.overflow(r.to(wide(r.dtype)), a.dtype, cpu, a)
        if exact:
            r = r.to(a.dtype)  # the constants of the call
        probe = None
        is_whole = len(moved) == len(self.moved)
        given = moved.pop() if self.as_given is not None and is_whole else None
        cut = moved.pop() if self.cut is not None and is_whole else None
        others = [m.detach().resolve_conj() for m in moved[PROBES:] if isinstance(m, torch.Tensor) and m.shape == r.shape]
        moved = [m.detach().resolve_conj() for m in moved[:PROBES] if isinstance(m, torch.Tensor) and m.shape == r.shape]
        if len(moved) == PROBES and is_float(r) and r.numel() and not exact:
            probe = self.probe(r, moved, c)
        reach, common, allowance = (probe.reach, probe.common, probe.allowance) if probe else (1.0, 0.0, None)
        if isinstance(given, torch.Tensor) and given.shape == r.shape:
            allowance = plus(allowance, off_by(given.detach().resolve_conj(), r))
        if cpu is not None and a.dtype in ROUNDOFF and r.numel() and not exact:
            is_split = any(not torch.equal(x.to(r.dtype), cpu.to(r.dtype)) for x in others[len(others) - self.split:])
            allowance = with_witness(allowance, r, [cpu, *others], roundoff_of(a.dtype, reach), is_split)
        more = self.allowed.of(self, a, r, probe, cut)
        if more:
            why, by, together = more
            allowance, common = allowance + by, common + together
            say = with_note(say, why)
        for why, by, together in floors(self, a, r, probe, place) if r.numel() and not exact and a.dtype in ROUNDOFF else ():
            allowance, common = plus(allowance, by), common + together
            say = with_note(say, f"allowed: {why}") if why else say
        self.talk.tensors(dict(event="tensor", dtype=dtype, exact=exact, reach=reach, common=common,
                               scale=self.rms(r) if cpu is None else 0.0,
                               emulated=self.cpu is not None and self.cpu.dtype is not None, **say),
                          actual=a, reference=r, cpu=cpu, allowance=allowance)

    def ties(self, a, r, say):
        """Indices of equal elements may come in any order: then the elements they name must be the same, and
        no index may come twice. Returns None where that cannot be said."""
        c = self.capture
        source = c.args[0] if c.args and isinstance(c.args[0], torch.Tensor) else c.kwargs.get("input")
        if not isinstance(source, torch.Tensor) or torch.equal(a.to(r.dtype), r):
            return None
        dim = c.kwargs.get("dim", next((x for x in c.args[1:] if isinstance(x, int) and not isinstance(x, bool)), None))
        if c.base in ("topk", "kthvalue"):
            numbers = [x for x in c.args[1:] if isinstance(x, int) and not isinstance(x, bool)]
            dim = c.kwargs.get("dim", numbers[-1] if len(numbers) > (0 if "k" in c.kwargs else 1) else -1)
        elif c.base in ("sort", "argsort") and dim is None:
            dim = -1
        source = source.detach()
        if dim is None:
            source, dim = source.reshape(-1), 0
            a, r = a.reshape(-1), r.reshape(-1)
        lost = a.dim() < source.dim()
        ai, ri = (a.unsqueeze(dim), r.unsqueeze(dim)) if lost else (a, r)
        if int(ai.min()) < 0 or int(ai.max()) >= source.shape[dim]:
            return None
        named, wanted = source.gather(dim, ai.long()), source.gather(dim, ri.long())
        if not torch.equal(torch.nan_to_num(named), torch.nan_to_num(wanted)):
            return None
        ordered = ai.sort(dim)[0]
        if ai.shape[dim] > 1 and c.base not in ("cummax", "cummin") and bool(
                (ordered.narrow(dim, 1, ai.shape[dim] - 1) == ordered.narrow(dim, 0, ai.shape[dim] - 1)).any()):
            return None
        self.tied(ri, say)
        return "ties"

    def tied(self, r, say):
        self.talk.tensors(dict(event="tensor", dtype=str(r.dtype)[6:], exact=True, reach=1.0, common=0.0, scale=0.0,
                               **with_note(say, "differs in ties only")), actual=r, reference=r, cpu=None)

    def is_as_often(self, a, r, place):
        """Are these not the values of torch.mode that the reference has, but others that come as often?"""
        c = self.capture
        source = c.tensors[0].detach()
        dim = c.kwargs.get("dim", c.args[1] if len(c.args) > 1 else -1)
        keeps = a.dim() == source.dim()
        if not source.dim() or torch.equal(a.to(r.dtype), r):
            return False
        a, r = ((x if keeps else x.unsqueeze(dim)) for x in (a, r.to(a.dtype)))
        if place == 1:
            if int(a.min()) < 0 or int(a.max()) >= source.shape[dim]:
                return False
            a, r = source.gather(dim, a), source.gather(dim, r)
        return torch.equal((source == a).sum(dim), (source == r).sum(dim))

    def value(self, a, r, cpu, say):
        same = a == r or (a != a and r != r)
        if not same and isinstance(a, float) and isinstance(r, (float, int)):
            u = max([ROUNDOFF[t.dtype] for t in self.capture.tensors if t.dtype in ROUNDOFF] or [2.0**-53])
            same = abs(a - r) <= 4 * u * abs(r) or a == cpu
        try:
            same = bool(same)
        except Exception:
            same = False
        self.talk.say(event="value", equal=same, actual=repr(a)[:200], reference=repr(r)[:200], **say)
