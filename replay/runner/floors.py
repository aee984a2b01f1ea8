"""Roundings inside of kernels that moved inputs do not show: those of what is larger than the result they end in."""
import torch

from ditrace_runner.choices import short
from ditrace_runner.probe import HALVES, ROUNDOFF, inner

FFT = set("""fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn ihfftn stft istft
    _fft_r2c _fft_c2r _fft_c2c""".split())
OF_FFT = 2  # roundoffs of the root mean square of a row
# What is near zero where something is near one: how many roundoffs of that.
ABSOLUTE = {"log_softmax": 2, "ndtr": 1, "special_ndtr": 1}
SUMS_SO_FAR = set("cumsum".split())
RESAMPLED = set("_upsample_bilinear2d_aa _upsample_bicubic2d_aa".split())
OF_RESAMPLED = 2  # roundoffs of the root of the sum of the squares of what is added up
NORMS = set("instance_norm batch_norm layer_norm group_norm".split())
# Factorisations, and what comes of one: they are as exact as n roundoffs (of 2v) of the largest number of the matrix.
SPECTRAL = {"svdvals": 0, "svd": 1, "eigvalsh": 0, "eigh": 0, "symeig": 0}
SOLVED = set("solve solve_ex inv inv_ex pinv householder_product nuclear_norm matrix_exp".split())
MAY_BE_NUCLEAR = ("norm", "matrix_norm")
FEW = 16  # columns; of more the errors cancel
OF_SCALE = 4  # the most that all numbers are off by together, in n roundoffs


def size_of(r):
    return torch.nan_to_num(r.abs().double(), nan=0.0, posinf=0.0, neginf=0.0)


def along(r):
    """The root mean square of the row that an element is in, along the dimension that has the largest."""
    squares = size_of(r).pow(2)
    means = [squares.mean(d, keepdim=True).expand_as(squares) for d in range(squares.dim())]
    return torch.stack(means).amax(0).sqrt() if means else squares.sqrt()


def largest(r):
    """Of each matrix, or row of its values."""
    size = size_of(r)
    return size.amax(tuple(range(-min(2, size.dim()), 0)), keepdim=True).expand_as(size) if size.dim() else size


class Floors:
    """For one result: why, and what each element may be off by besides."""

    def __init__(self, judge, a, r, probe, place, is_device):
        self.judge, self.r, self.probe, self.place, self.is_device = judge, r, probe, place, is_device
        self.base, self.role, self.dtype = judge.capture.base, judge.role, a.dtype
        self.u = ROUNDOFF[a.dtype]
        self.v = inner(a.dtype, self.u)

    def n(self):
        n = max([n for t in self.judge.capture.tensors for n in t.shape[-2:]] or [1])
        return min(n, (FEW * n)**0.5)

    def is_solved(self):
        c, name = self.judge.capture, short(self.base)
        return name in SOLVED or name in MAY_BE_NUCLEAR and "nuc" in (c.kwargs.get("p"), c.kwargs.get("ord"), *c.args[1:2])

    def of_halves(self):
        """What kernels of devices round to half types where the CPU's do not."""
        if self.base in FFT:
            return "a transform in half", OF_FFT * self.u * along(self.r)
        if self.base in SUMS_SO_FAR and self.role == "output":
            dim = self.judge.capture.kwargs.get("dim", self.judge.capture.args[1] if len(self.judge.capture.args) > 1 else 0)
            squares = size_of(self.r).pow(2)
            return "sums so far rounded", self.u * (squares.cumsum(dim) if squares.dim() else squares).sqrt()
        if self.base in RESAMPLED and self.probe:
            return "rows rounded before columns are added up", OF_RESAMPLED * self.u / self.v / self.probe.factor * self.probe.allowance
        return None

    def of_matrices(self):
        """What the solvers of devices are off by."""
        if SPECTRAL.get(short(self.base)) == self.place and self.role == "output" or self.is_solved() and self.n() > 1:
            return "n roundoffs of the largest", 2 * self.n() * self.v * largest(self.r)
        return None

    def silent(self):
        """What holds for kernels of any device: of complex numbers the roundoff is that of their modulus."""
        if self.r.is_complex():
            yield self.v * size_of(self.r)
        if self.base in FFT:
            yield OF_FFT * self.v * along(self.r)
        factor = ABSOLUTE.get(self.base.lstrip("_"))
        if factor and self.role == "output":
            yield torch.full_like(size_of(self.r), factor * self.v)
        if self.base in ("softmax", "_softmax") and self.role == "grad":
            yield from self.of_softmax()
        if self.base in ("gelu", "gelu_backward"):
            yield from self.of_gelu()
        if self.base in NORMS and self.role == "grad" and self.is_device and self.probe:
            yield self.probe.allowance

    def of_gelu(self):
        """Of x·(1 + erf(x)), and of its gradient times that of the result, where erf(x) is near -1."""
        x = self.judge.given[0] if self.role == "grad" else self.judge.capture.tensors[0]
        if isinstance(x, torch.Tensor) and x.shape == self.r.shape:
            yield self.v * size_of(x.detach())

    def of_softmax(self):
        """Each is y·(g - Σgy), where the sum is rounded."""
        y, g = self.judge.reference.results, self.judge.given[0]
        if isinstance(y, torch.Tensor) and isinstance(g, torch.Tensor) and y.shape == self.r.shape:
            yield self.v * size_of(y.detach()) * size_of(g.detach()).amax()

    def found(self):
        """(why, what each element may be off by, what all may be together in roundoffs); why: None of what any kernel does."""
        for by in self.silent():
            yield None, self.as_parts(by), 0.0
        if not self.is_device:
            return
        for more in filter(None, (self.of_halves() if self.dtype in HALVES | {torch.complex32} else None, self.of_matrices())):
            why, by = more
            yield why, self.as_parts(by), OF_SCALE * self.n() if self.is_solved() else 0.0

    def as_parts(self, by):
        """As the allowance is, which complex numbers have for both of their parts."""
        return (torch.stack([by, by], -1) if self.r.is_complex() and by.dim() == self.r.dim() else by).contiguous()


def floors(judge, a, r, probe, place):
    return Floors(judge, a, r, probe, place, judge.allowed.kind != "cpu").found()
