"""What is right for a result: how it moves when the numbers inside of a kernel move by a roundoff, and how far off the
CPU is."""
import torch

HALVES = {torch.float16, torch.bfloat16}
ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53,
            torch.complex32: 2.0**-11, torch.complex64: 2.0**-24, torch.complex128: 2.0**-53}
SPACING = {}  # of dtypes that cannot be computed with
for _name, _bits in (("float8_e5m2", 3), ("float8_e4m3fn", 4), ("float8_e5m2fnuz", 3), ("float8_e4m3fnuz", 4)):
    if hasattr(torch, _name):
        SPACING[getattr(torch, _name)] = 2.0**-_bits
ROUNDOFF.update(SPACING)
PROBES = 4  # times that the inputs are moved
MANY = 6  # inputs of one element from which on the op is taken for a sum
INNER = 2.0**-24  # what kernels compute with: half types, too
APPROXIMATION, DISORDER, LONGEST = 2, 0.8, 1 << 14  # as in numbers/verdict.c
FEW_ROWS = 4
OCTAVES, SMALLEST = 1100, 2.0**-1074  # of float64
COARSE = 8  # times what rounding explains


def inner(dtype, cap):
    """By how much inputs of this dtype are moved: `cap` is the roundoff of the results."""
    u = min(ROUNDOFF.get(dtype, 0), cap)
    return min(u, INNER)


def roundoff_of(dtype, reach):
    """That of compare_params (verdict_roundoff)."""
    u = ROUNDOFF[dtype]
    order = DISORDER * min(reach, LONGEST) ** 0.5 if reach > 1 else 0.0
    return u + (APPROXIMATION + order) * inner(dtype, u)


def noise_maker(seed, cap, part):
    """Inputs moved by about one roundoff of what the kernel computes with: each element by a random share of it, or (part)
    every second element, by chance. The kernel itself gets them as they are."""
    gen = torch.Generator()
    gen.manual_seed(seed)

    def noise(t, dtype):
        u = inner(dtype, cap)
        r = torch.rand(t.shape, generator=gen, dtype=torch.float64)
        size = (0.5 + 0.5 * torch.rand(t.shape, generator=gen, dtype=torch.float64)) * torch.where(r < 0.5, -1.0, 1.0)
        if part:
            size = size * (torch.rand(t.shape, generator=gen, dtype=torch.float64) < 0.5)
        return t * (1 + u * size)

    return noise


class Probe:
    """What the results do when the inputs move by a roundoff: the allowance of each element, so many times (`factor`) that,
    and how many inputs an element depends on."""

    def __init__(self, reference, moved, capture):
        *full, half = (off_by(m, reference) for m in moved)
        full = torch.stack(full)
        typical = full.pow(2).mean(0).sqrt()
        self.inputs = self.inputs_of(full, half)
        if self.inputs >= MANY and typical.dim():
            row = typical.pow(2).mean(-1, keepdim=True).sqrt()
            typical = torch.maximum(typical, torch.minimum(0.25 * row, 16 * typical))
        self.allowance = torch.maximum(typical, half)
        self.learn_sums(reference, capture)

    def learn_sums(self, reference, capture):
        """In a sum the roundings of its steps come together, and a sum that all elements share moves them all."""
        self.reach, self.common = 1.0, 0.0
        longest, own = self.length(reference, capture)
        if self.inputs < MANY:
            is_few = reference.numel() < 2 ** (MANY - 1)  # too few to tell how many inputs act on one
            self.reach = own if is_few and own >= MANY else 1.0
            self.factor = 2.0
            self.allowance *= self.factor
            return
        self.reach, is_shared = longest, longest > 1.01 * own and reference.numel() >= max(t.numel() for t in capture.tensors)
        order = DISORDER * min(self.reach, LONGEST) ** 0.5
        self.factor = max(order, 2.0)
        self.allowance *= self.factor
        rows = reference.numel() / max([*reference.shape, 1])
        if is_shared and rows < FEW_ROWS:
            self.common = order / rows**0.5

    @staticmethod
    def inputs_of(full, half):
        """Of elements that move at all, a share of 2^-m stands still when every input moves by a chance of one
        half: then m inputs act on one."""
        moves = (full > 0).any(0)
        n = int(moves.sum())
        if not n:
            return 0
        still = int((moves & (half == 0)).sum())
        return float(torch.log2(torch.tensor(n / max(still, 0.5))))

    @staticmethod
    def length(reference, capture):
        """How many terms a sum in the op may have; and without those along a dimension that the result has, too."""
        sizes = sorted((t.numel() for t in capture.tensors), reverse=True) or [1]
        out = max(reference.numel(), 1)
        longest = max([n for t in capture.tensors for n in t.shape] or [1])
        two = (sizes[0] * sizes[1] / out) ** 0.5 if len(sizes) > 1 else 0
        own = max(sizes[0] / out, two, 1.0)
        return max(own, float(longest)), own


def parts(t):
    return torch.view_as_real(t) if t.is_complex() else t


def plus(allowance, by):
    return by if allowance is None else allowance + by


def off_by(other, reference):
    return torch.nan_to_num((parts(other) - parts(reference)).abs(), nan=0.0, posinf=0.0, neginf=0.0)


def steady(allowance):
    """An estimate of few runs, no smaller by chance than its row has it, but at most doubled."""
    if not allowance.dim():
        return allowance
    row = allowance.pow(2).mean(-1, keepdim=True).sqrt()
    return torch.maximum(allowance, torch.minimum(row, 2 * allowance))


def with_witness(allowance, reference, cpus, roundoff, is_split=False):
    """The allowance, and two thirds of what the CPU's own kernels are off by beyond it and beyond `roundoff`: at most, among
    results of about the same size, and at most in terms of the allowance. Where it is no rounding of the result, but of
    something larger, results that are smaller still have it as well. is_split: the parts of its sums are rounded, and which ones depends
    on the number of threads."""
    r = parts(reference)
    size = torch.nan_to_num(r, nan=0.0, posinf=0.0, neginf=0.0).abs()
    allowed = roundoff * size if allowance is None else roundoff * size + allowance
    over = torch.zeros_like(r)
    for cpu in cpus:
        off = (parts(cpu.to(reference.dtype)) - r).abs() - allowed
        over = torch.maximum(over, torch.nan_to_num(off, nan=0.0, posinf=0.0, neginf=0.0))
    if not bool((over > 0).any()):
        return allowance
    octave = torch.where(size > 0, torch.frexp(size)[1], -OCTAVES).clamp(-OCTAVES, OCTAVES).long() + OCTAVES
    most = torch.zeros(2 * OCTAVES + 1, dtype=over.dtype)

    def largest(x):
        return most.scatter_reduce(0, octave.reshape(-1), x.reshape(-1), "amax")

    shares = largest(torch.where(size > 0, over / size.clamp_min(SMALLEST), torch.zeros_like(over)))
    near = torch.nn.functional.max_pool1d(shares[None, None], 5, 1, 2)[0, 0]
    coarse = largest(torch.where(over > COARSE * allowed, over, torch.zeros_like(over)))
    below = coarse.flip(0).cummax(0)[0].flip(0)
    found = torch.maximum(near[octave] * size, below[octave])
    if allowance is not None:
        moves = allowance > 0
        times = torch.where(moves, over / allowance.clamp_min(SMALLEST), torch.zeros_like(over)).max()
        most_of_each = torch.where(below[octave] > 0, steady(allowance), allowance) if is_split else allowance
        found = torch.where(moves, torch.minimum(found, times * most_of_each), found)
    found = 2 / 3 * found + (0.0 if allowance is None else allowance)
    return torch.nan_to_num(found, nan=float("inf"), posinf=float("inf"))


def rms(t):
    if not t.numel():
        return 0.0
    t = torch.view_as_real(t) if t.is_complex() else t
    t = t.double()
    t = t[torch.isfinite(t)]
    return float(t.pow(2).mean().sqrt()) if t.numel() else 0.0


def overflow(reference, dtype, cpu, actual):
    """Where the dtype has no such large number, infinity is right; near the end of its range it is so, too, where the
    CPU has it."""
    if not (dtype.is_floating_point and reference.dtype == torch.float64 and dtype != torch.float64):
        return reference
    rounded = reference.to(dtype).double()
    reference = torch.where(torch.isinf(rounded), rounded, reference)
    if cpu is not None and cpu.shape == reference.shape:
        near = torch.isinf(cpu) & (actual == cpu) & (reference.abs() > torch.finfo(dtype).max / 2)
        reference = torch.where(near, cpu.double(), reference)
    return reference
