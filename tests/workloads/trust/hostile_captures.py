"""Captures of somebody who means harm, for the tests of trust: hostile_captures.py FOLDER. The first and the last
but one are good. Whoever does what the others ask for finds FOLDER/harmed, or needs GiB of memory."""

import os
import pickle
import sys
import zipfile

import torch

ROOT = sys.argv[1]
HARMED = os.path.join(ROOT, "harmed")


def place(n, op):
    path = os.path.join(ROOT, "captures", op, "7", str(n), "2026-01-01-00-00-00")
    os.makedirs(path)
    return path


def capture(n, op, *args, **kwargs):
    path = place(n, op)
    for part in ("input", "output"):
        torch.save({"name": op, "args": args, "kwargs": kwargs, "identifier": "x"}, f"{path}/{part}.pth")
    return path


def rewritten(path, edit, **how):
    with zipfile.ZipFile(path) as z:
        members = {n: z.read(n) for n in z.namelist()}
    with zipfile.ZipFile(path, "w", **how) as z:
        for name, data in members.items():
            z.writestr(name, edit(name, data))


class Call:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


BOMB = os.path.join(ROOT, "bomb")


def bomb(n):
    """A storage of 1.5 GiB in some MiB."""
    path = capture(n, "torch.neg", torch.zeros(4)) + "/input.pth"
    with zipfile.ZipFile(path) as z:
        data = {name: z.read(name) for name in z.namelist() if "/data/" not in name}
        (storage,) = (name for name in z.namelist() if "/data/" in name)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
        for name, text in data.items():
            z.writestr(name, text)
        with z.open(storage, "w", force_zip64=True) as f:
            for _ in range(24):
                f.write(bytes(64 << 20))
    os.link(path, BOMB)


def of_strides(n):
    """One number, seen 2^30 times."""
    capture(n, "torch.neg", torch.ones(1).expand(1 << 30))


def of_nests(n):
    """A tuple of two of a tuple of two ..., 2^60 leaves."""
    nest = (1, 1)
    for _ in range(60):
        nest = (nest, nest)
    capture(n, "torch.neg", torch.zeros(4), nest)


def of_ranges(n):
    """A size of 2^40 numbers, of a range."""
    path = capture(n, "torch.neg", Call(torch.Size, range(1 << 40)))
    rewritten(path + "/input.pth", lambda name, data: data.replace(b"c__builtin__\nxrange\n", b"cbuiltins\nrange\n"))


def of_holes(n):
    """The first bomb in a file of 16 GiB, of which nearly all is a hole."""
    path = capture(n, "torch.neg", torch.zeros(4)) + "/input.pth"
    with open(BOMB, "rb") as whole, open(path, "wb") as f:
        f.truncate(16 << 30)
        f.seek(16 << 30)
        f.write(whole.read())


def pickled(n):
    path = capture(n, "torch.neg", torch.zeros(4))
    evil = pickle.dumps({"name": "torch.neg", "args": (Call(os.system, f"touch {HARMED}"),), "kwargs": {}}, 2)
    rewritten(path + "/input.pth", lambda name, data: evil if name.endswith("data.pkl") else data)


capture(1, "torch.neg", torch.zeros(4))
capture(2, "aten::from_file", HARMED, True, 1024)
capture(3, "torch.ops.aten.from_file.default", HARMED, True, 1024)
capture(4, "aten::save", torch.ones(2), HARMED)
capture(5, "aten.from_file", HARMED, True, 1024)
capture(6, "prim::Print", HARMED)
capture(7, "c10d::barrier", torch.ones(2))
capture(8, "aten::warn", "\033]0;owned\007", 2)
capture(9, "torch.Tensor.__setstate__", torch.ones(2), (1,))
pickled(10)
capture(11, "torch.Tensor.apply_", torch.ones(2), Call(torch.serialization._get_layout, "torch.load"))
bomb(12)
of_strides(13)
of_nests(14)
of_ranges(15)
os.mkfifo(os.path.join(capture(16, "torch.neg", torch.zeros(4)), "grad_outputs.pth"))
of_holes(17)
piped = capture(18, "torch.neg", torch.zeros(4))
os.mkfifo(piped + "/input.pth.json")
capture(19, "torch.ones", 1 << 40)
