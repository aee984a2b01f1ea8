"""What is right for a result: how it moves when the inputs move by a roundoff."""
import torch

ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53,
            torch.complex64: 2.0**-24, torch.complex128: 2.0**-53}
SPACING = {}  # of dtypes that cannot be computed with
for _name, _bits in (("float8_e5m2", 3), ("float8_e4m3fn", 4), ("float8_e5m2fnuz", 3), ("float8_e4m3fnuz", 4)):
    if hasattr(torch, _name):
        SPACING[getattr(torch, _name)] = 2.0**-_bits
ROUNDOFF.update(SPACING)
PROBES = 4  # times that the inputs are moved
MANY = 6  # inputs of one element from which on the op is taken for a sum


def noise_maker(seed, cap, part):
    """Inputs moved by about one roundoff of their dtype, at most that of the results: each element by a
    random share of it, or (part) every second element, by chance."""
    gen = torch.Generator()
    gen.manual_seed(seed)

    def noise(t, dtype):
        u = min(ROUNDOFF.get(dtype, 0), cap)
        r = torch.rand(t.shape, generator=gen, dtype=torch.float64)
        size = (0.5 + 0.5 * torch.rand(t.shape, generator=gen, dtype=torch.float64)) * torch.where(r < 0.5, -1.0, 1.0)
        if part:
            size = size * (torch.rand(t.shape, generator=gen, dtype=torch.float64) < 0.5)
        return t * (1 + u * size)

    return noise


class Probe:
    """What the results do when the inputs move by a roundoff: the allowance of each element, and how many
    inputs an element depends on."""

    def __init__(self, reference, moved, capture):
        diffs = [(torch.view_as_real(m - reference) if reference.is_complex() else m - reference).abs() for m in moved]
        full = torch.stack([torch.nan_to_num(d, nan=0.0, posinf=0.0, neginf=0.0) for d in diffs[:-1]])
        typical = full.pow(2).mean(0).sqrt() if len(full) else torch.zeros_like(diffs[0])
        half = torch.nan_to_num(diffs[-1], nan=0.0, posinf=0.0, neginf=0.0)
        self.inputs = self.inputs_of(full, half)
        if self.inputs >= MANY and typical.dim():
            row = typical.pow(2).mean(-1, keepdim=True).sqrt()
            typical = torch.maximum(typical, 0.25 * row)
        self.allowance = torch.maximum(typical, half)
        self.reach = self.length(reference, capture) if self.inputs >= MANY else 1.0

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
        """How many terms a sum in the op may have."""
        sizes = sorted((t.numel() for t in capture.tensors), reverse=True) or [1]
        out = max(reference.numel(), 1)
        longest = max([n for t in capture.tensors for n in t.shape] or [1])
        two = (sizes[0] * sizes[1] / out) ** 0.5 if len(sizes) > 1 else 0
        return max(sizes[0] / out, two, float(longest), 1.0)


def rms(t):
    if not t.numel():
        return 0.0
    t = torch.view_as_real(t) if t.is_complex() else t
    t = t.double()
    t = t[torch.isfinite(t)]
    return float(t.pow(2).mean().sqrt()) if t.numel() else 0.0


def overflow(reference, dtype, cpu):
    """Where the dtype has no such large number, infinity is right; near the end of its range so is what the
    CPU has."""
    if not (dtype.is_floating_point and reference.dtype == torch.float64 and dtype != torch.float64):
        return reference
    rounded = reference.to(dtype).double()
    reference = torch.where(torch.isinf(rounded), rounded, reference)
    if cpu is not None and cpu.shape == reference.shape:
        near = torch.isinf(cpu) & (reference.abs() > torch.finfo(dtype).max / 2)
        reference = torch.where(near, cpu.double(), reference)
    return reference
