"""How a call that is under way is judged, as replay judges a captured one, and which verdicts are told."""
import torch

from ditrace_modes.calls import Busy, quietly
from ditrace_modes.link import LINK
from ditrace_modes.native import counts, extent, judged, perturbed, probed, settled_calls, surely_right
from ditrace_modes.saved import Saved, save_judged
from ditrace_modes.values import described_in, rows_of, shown
from ditrace_runner.autocast_state import no_autocast
from ditrace_runner.call import convert, walk, wide
from ditrace_runner.errors import Refused, first_line
from ditrace_runner.functions import PRIVATE
from ditrace_runner.judge import Judge
from ditrace_runner.probe import Probe, inner, noise_maker, overflow, rms


def is_packed64(*tensors):
    return all(t.dtype == torch.float64 and t.is_contiguous() for t in tensors)


def is_strided(*values):
    return all(isinstance(x, torch.Tensor) and x.layout == torch.strided for x in values)


class PackedProbe(Probe):
    """In C, for tensors of float64 that lie packed."""

    def __init__(self, reference, moved, capture):
        if not is_packed64(reference, *moved):
            super().__init__(reference, moved, capture)
            return
        self.allowance = torch.empty_like(reference)
        self.inputs = probed(self.allowance, reference.detach(), *moved)
        self.learn_sums(reference, capture)


class LiveJudge(Judge):
    probe, may_switch, knows_settings = PackedProbe, False, True

    @staticmethod
    def noise_maker(seed, cap, part):
        slow, calls = noise_maker(seed, cap, part), [seed << 32]

        def noise(t, dtype):
            """`t` is a copy already."""
            if not is_packed64(t):
                return slow(t, dtype)
            calls[0] += 1
            return perturbed(t, calls[0], inner(dtype, cap), part)

        return noise

    @staticmethod
    def rms(t):
        return extent(t)[0] if is_packed64(t) else rms(t)

    @staticmethod
    def overflow(reference, dtype, cpu, actual):
        if is_packed64(reference) and dtype.is_floating_point and extent(reference)[1] < torch.finfo(dtype).max / 2:
            return reference
        return overflow(reference, dtype, cpu, actual)

    def judge_outputs(self):
        if not self.request["backward"]:
            super().judge_outputs()

    def pairs(self):
        """(index, actual, reference, the CPU's or None) of what is judged; None where they do not match."""
        if not self.request["backward"]:
            parts = [list(walk(x)) for x in (self.actual_results, self.reference.results, self.cpu and self.cpu.results)]
            parts = parts if self.cpu else [*parts[:2], [("", None)] * len(parts[0])]
            return None if len({len(p) for p in parts}) > 1 else [
                (path.strip("[]").replace("][", ","), a, r, c) for i, ((path, a), (_, r), (_, c)) in enumerate(zip(*parts))
                if i not in PRIVATE.get(self.capture.base, ())]
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
                sure = sure or is_strided(a, cpu) and cpu.dtype == a.dtype and torch.equal(a, cpu)
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
            self.count(what, 2, 0.0)
        elif what["event"] != "op":
            self.count(what, int(not what.get("equal")), 0.0)

    def tensors(self, what, actual, reference, cpu=None, allowance=None):
        self.said.append((what, dict(actual=actual, reference=reference, cpu=cpu, allowance=allowance)))
        verdict, bad = judged(self.live.name, actual, reference, cpu, allowance, what["exact"], what["reach"], what["scale"],
                              what["common"])
        self.count(what, verdict, bad)

    def count(self, what, verdict, bad):
        if verdict == 1 and "choice" in what:  # as row.c has it
            verdict, bad = 2, 0.0
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
    found = {t.dtype: wide(t.dtype) for t in live.tensors if not live.is_of_bits()}
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
        with Busy(), torch.enable_grad(), no_autocast():
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
