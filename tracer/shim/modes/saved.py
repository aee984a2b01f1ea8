"""Calls saved as captures: the parts of one go to ditrace, which writes the files."""
import torch

from ditrace_modes.link import LINK
from ditrace_runner.call import convert, is_dense, wide
from ditrace_runner.describe import tensor_facts, value_facts
from ditrace_runner.load import LOCATIONS


class Pieces:
    """The tensors of one file, as facts of replay/replay.h; each that is met twice is one piece of memory."""

    def __init__(self, device):
        self.device, self.numbers, self.flat = device, {}, []

    def of(self, t):
        if id(t) not in self.numbers:
            self.numbers[id(t)] = len(self.flat), self.add(t)
        number, kept = self.numbers[id(t)]
        facts = tensor_facts(kept)["tensor"]
        facts.update(piece=number, offset=0, requires_grad=t.requires_grad)
        if self.device:
            facts["device"] = self.device
        else:
            facts["device"] = getattr(t, LOCATIONS, "cpu")
        return {"tensor": facts}

    def add(self, t):
        """With the strides that it has, where nothing lies between its elements."""
        kept = t.detach().resolve_conj()
        kept = kept.resolve_neg() if hasattr(kept, "resolve_neg") else kept
        if not is_dense(kept):
            kept = kept.contiguous()
        self.flat.append((kept.as_strided((kept.numel(),), (1,)), t))
        return kept


def save_part(about, part, args, kwargs=None, of=None, in_one=False, device=None, last=False):
    """One file of a capture: is it saved? about: op, above, id, time, where. Locations are those of the tensors, else
    `device`."""
    pieces = Pieces(device)
    what = dict(about, event="save", part=part, args=[value_facts(x, pieces.of) for x in args], of=of, in_one=in_one,
                kwargs=[[k, value_facts(v, pieces.of)] for k, v in (kwargs or {}).items()], last=last)
    return LINK.tensors(what, **{f"p{i}": flat for i, (flat, _) in enumerate(pieces.flat)})["saved"]


def save_results(about, part, results, **how):
    """As Python returns them: a tuple of several in one, None for what the call has written to."""
    if isinstance(results, dict):
        return save_part(about, part, [None], results, **how)
    several = isinstance(results, tuple)
    return save_part(about, part, results if several else [results], in_one=several, **how)


def widened(x, call):
    """Arguments of a call as the reference has them."""
    copies, wider = {}, wide if not call.is_of_bits() else lambda dtype: dtype

    def wide_one(t):
        if isinstance(t, torch.dtype):
            return wider(t)
        if isinstance(t, torch.device):
            return torch.device("cpu")
        if not isinstance(t, torch.Tensor):
            return t
        if id(t) not in copies:
            copies[id(t)] = t.detach().to(wider(t.dtype)).requires_grad_(t.requires_grad)
        return copies[id(t)]

    return convert(x, wide_one)


def save_judged(judge, at, number, backward):
    """The call as it was, in device/, and its reference, in cpu/, as ditorch's comparison lays them out."""
    c = judge.capture
    about = dict(op=c.name, above="autocompare/", id=number, time=c.began, where=list(at or ()))
    output, reference = c.parts["output"]["args"][0], judge.reference
    save_part(about, "device/input", c.args, c.kwargs)
    save_results(about, "device/output", output)
    save_part(about, "cpu/input", widened(c.args, c), widened(c.kwargs, c), device="cpu")
    save_results(about, "cpu/output", reference.results, device="cpu", last=not backward)
    if not backward:
        return
    given = c.parts["grad_outputs"]["args"]
    leaves = c.leaves()
    of = [path.replace("][", "[", 1) + "]" * ("][" in path) for path, _ in leaves]
    save_part(about, "device/grad_outputs", given)
    save_part(about, "device/grad_inputs", [c.grads.get(id(t)) for _, t in leaves], of=of)
    save_part(about, "cpu/grad_outputs", widened(given, c), device="cpu")
    save_part(about, "cpu/grad_inputs", [g for _, g in reference.input_grads], of=of, device="cpu", last=True)


class Saved:
    """How many calls of each function at each line were saved."""

    MOST_PLACES = 4096
    done = {}

    @classmethod
    def wants(cls, key):
        n = cls.done.get(key, 0)
        if n >= LINK.settings["captures"] or not n and len(cls.done) >= cls.MOST_PLACES:
            return False
        cls.done[key] = n + 1
        return True
