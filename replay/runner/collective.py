"""The captures of one collective, of all its ranks: what each got is judged by what all of them gave."""
import os

import torch

from ditrace_runner.call import is_float, walk, wide
from ditrace_runner.errors import Refused
from ditrace_runner.load import load
from ditrace_runner.probe import DISORDER, ROUNDOFF, overflow, parts, rms

EXACT = {"MIN": torch.minimum, "MAX": torch.maximum, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or,
         "BXOR": torch.bitwise_xor}
ADDS = ("SUM", "AVG", "PRODUCT")


def flat(t):
    return t.detach().reshape(-1)


def pieces(t, n, which):
    """One of `n` equal pieces of a tensor."""
    t = flat(t)
    if t.numel() % n:
        raise Refused(f"{t.numel()} elements are no {n} equal pieces")
    each = t.numel() // n
    return t[which * each:(which + 1) * each]


def tensors_of(x):
    return [t for _, t in walk(x) if isinstance(t, torch.Tensor)]


class Collective:
    def __init__(self, request, talk):
        self.request, self.talk, self.size = request, talk, request["size"]
        self.kind, self.reduce_op, self.root = request["kind"], request["reduce_op"], request["root"]
        self.ranks = {m["rank"]: i for i, m in enumerate(request["members"])}
        self.given = {}

    def gives(self, rank):
        """What a rank gave: tensors, or for a scatter and the like lists of them."""
        if rank not in self.ranks:
            raise Refused(f"rank {self.request['names'][rank]}'s is not there: cannot be judged")
        if rank not in self.given:
            d = load(os.path.join(self.request["members"][self.ranks[rank]]["dir"], "input.pth"), self.request)
            x = d["args"][0]
            self.given[rank] = [x] if isinstance(x, torch.Tensor) else x
            self.splits = (d.get("kwargs") or {})
        return self.given[rank]

    def piece_for(self, rank, which, i):
        """Of what `rank` gave to all, as its i-th tensor, what is for `which`."""
        x = self.gives(rank)
        if x and isinstance(x[0], (list, tuple)):
            return x[i][which]
        if self.kind == "alltoall" and self.is_base():
            splits = self.splits.get("input_split_sizes") or self.splits.get("input_splits")
            return list(x[0].split(list(splits)))[which] if splits else pieces(x[0], self.size, which)
        return x[which] if self.kind == "alltoall" else pieces(x[i], self.size, which)

    def is_base(self):
        return "_base" in self.request["op"]

    def terms(self, rank, n):
        """For each of the `n` tensors that `rank` gets: the tensors that it is made of, and whether they are added up."""
        all_ranks, kind, root = range(self.size), self.kind.replace("_coalesced", ""), self.root
        if kind in ("allreduce", "reduce"):
            return [([self.gives(r)[i] for r in all_ranks], True) for i in range(n)]
        if kind == "reduce_scatter":
            return [([self.piece_for(r, rank, i) for r in all_ranks], True) for i in range(n)]
        if kind == "broadcast":
            return [([self.gives(root)[i]], False) for i in range(n)]
        if kind == "scatter":
            return [([self.piece_for(root, rank, i)], False) for i in range(n)]
        if kind == "alltoall" and self.is_base():
            return [([torch.cat([flat(self.piece_for(r, rank, 0)) for r in all_ranks])], False)]
        if kind == "alltoall":
            return [([self.piece_for(r, rank, 0)], False) for r in all_ranks]
        if kind in ("allgather", "gather"):
            gave = [self.gives(r) for r in all_ranks]
            if n == self.size * len(gave[0]) and not self.is_base() and "into" not in self.request["op"]:
                if self.kind == "allgather_coalesced":
                    return [([gave[r][i]], False) for r in all_ranks for i in range(len(gave[0]))]
                return [([gave[r][i]], False) for i in range(len(gave[0])) for r in all_ranks]
            return [([torch.cat([flat(g[i]) for g in gave])], False) for i in range(n)]
        raise Refused(f"{self.kind} is not judged")

    def judge(self):
        kinds = {(m["kind"], m["reduce_op"], m["root"]) for m in self.request["members"]}
        if len(kinds) > 1:
            raise Refused("the ranks do not call the same collective: " + ", ".join(sorted({k for k, _, _ in kinds})))
        if not self.request["matched"]:
            raise Refused("its group, or its number in it, is not known: it cannot be matched with those of other ranks")
        for rank in set(range(self.size)) - set(self.ranks) if self.kind in ("broadcast", "scatter") else ():
            self.talk.say(event="skip", role="output", index="", member=0,
                          reason=f"rank {self.request['names'][rank]}'s is not there: that is not judged")
        for rank, i in sorted(self.ranks.items()):
            self.judge_rank(rank, self.request["members"][i]["dir"], i)

    def judge_rank(self, rank, folder, member):
        say = dict(role="output", member=member)
        path = os.path.join(folder, "output.pth")
        if not os.path.exists(path):
            if self.kind not in ("reduce", "gather") or rank == self.root:
                self.talk.say(event="skip", index="", reason="there is no output.pth: when it was done was not seen", **say)
            return
        got = tensors_of(load(path, self.request)["args"])
        for i, (a, (terms, adds)) in enumerate(zip(got, self.terms(rank, len(got)))):
            self.judge_tensor(a.detach(), [t.detach() for t in terms], adds, dict(say, index=str(i) if len(got) > 1 else ""))

    def judge_tensor(self, a, terms, adds, say):
        sizes = {t.numel() for t in terms} | {a.numel()}
        dtypes = {str(t.dtype)[6:] for t in terms} | {str(a.dtype)[6:]}
        if len(sizes) > 1 or len(dtypes) > 1:
            what = "elements: " + ", ".join(map(str, sorted(sizes))) if len(sizes) > 1 else "dtypes: " + ", ".join(sorted(dtypes))
            self.talk.say(event="mismatch", reason=f"the ranks give, and this one gets, different {what}", **say)
            return
        terms = [flat(t.resolve_conj()).reshape(a.shape) for t in terms]
        a = a.resolve_conj()
        if not adds:
            self.exact(a, terms[0], say)
        elif self.reduce_op in EXACT:
            self.least_or_most(a, terms, say)
        elif self.reduce_op == "AVG" and not is_float(a):
            self.talk.say(event="skip", reason="how a mean of integers is rounded is not defined: not judged", **say)
        elif self.reduce_op not in ADDS:
            why = "what PREMUL_SUM multiplies by is not captured" if self.reduce_op == "PREMUL_SUM" else "the reduction is not known"
            self.talk.say(event="skip", reason=why + ": not judged", **say)
        elif not is_float(a):
            self.exact(a, self.in_turn(terms), say)
        else:
            self.rounded(a, terms, say)

    def exact(self, a, reference, say):
        self.talk.tensors(dict(event="tensor", dtype=str(a.dtype)[6:], exact=True, reach=1.0, common=0.0, scale=0.0, **say),
                          actual=a, reference=reference, cpu=None)

    def least_or_most(self, a, terms, say):
        reference = terms[0]
        for t in terms[1:]:
            reference = EXACT[self.reduce_op](reference, t)
        if is_float(a) and bool(torch.isnan(reference).any()):  # whose comparisons depend on the order
            reference = torch.where(torch.isnan(reference), a, reference)
            say["note"] = "not judged where a rank gives NaN"
        self.exact(a, reference, say)

    def in_turn(self, terms):
        total = terms[0].clone()
        for t in terms[1:]:
            total = total * t if self.reduce_op == "PRODUCT" else total + t
        return total / len(terms) if self.reduce_op == "AVG" else total

    def beyond(self, a, terms):
        """Where a part of the result is too large for the dtype, or too small, in some order."""
        info, sizes = torch.finfo(a.dtype), torch.stack([t.abs() for t in terms])
        if self.reduce_op != "PRODUCT":
            return torch.isfinite(sizes.sum(0)) & (sizes.sum(0) > info.max)
        return (sizes.clamp(min=1).prod(0) > info.max) | (sizes.clamp(max=1).prod(0) < info.tiny) & (sizes > 0).all(0)

    def rounded(self, a, terms, say):
        """Each step of a sum, in whatever order, may be rounded to the dtype; the last one is counted with the result."""
        if a.dtype not in ROUNDOFF:
            self.talk.say(event="skip", reason=f"sums of {str(a.dtype)[6:]} are not judged", **say)
            return
        wider = [t.to(wide(t.dtype)) for t in terms]
        reference = self.in_turn(wider)
        size = sum(parts(t).abs() for t in wider)
        if self.reduce_op == "PRODUCT":
            size = parts(reference).abs()
        elif self.reduce_op == "AVG":
            size = size / len(terms)
        steps = max(len(terms) - 2, 0) + (self.reduce_op == "AVG" and len(terms) > 1)
        order = DISORDER * steps**0.5 if steps > 1 else float(steps)
        allowance = torch.nan_to_num(order * ROUNDOFF[a.dtype] * size, nan=0.0, posinf=0.0).double()
        try:
            cpu = self.in_turn(terms)
        except RuntimeError:
            cpu = None
        beyond = self.beyond(a, wider)
        if bool(beyond.any()):
            say["note"] = "not judged where the range of the dtype is left on the way, in one order or another"
            reference = torch.where(beyond, a.to(reference.dtype), reference)
            cpu = torch.where(beyond, a, cpu) if cpu is not None else None
        reference = overflow(reference, a.dtype, cpu, a)
        self.talk.tensors(dict(event="tensor", dtype=str(a.dtype)[6:], exact=False, reach=1.0, common=0.0,
                               scale=rms(reference) if cpu is None else 0.0, **say),
                          actual=a, reference=reference, cpu=cpu, allowance=allowance)


def collective(request, talk):
    Collective(request, talk).judge()
