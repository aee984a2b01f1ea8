"""Captures that are damaged, or mean harm, for the tests of replay: bad_captures.py FOLDER. Whoever runs
what the hostile ones ask for finds FOLDER/harmed."""

import io
import os
import pickle
import sys
import zipfile

import torch

ROOT = sys.argv[1]
HARM = "touch " + os.path.join(ROOT, "harmed")


def folder(op, n):
    path = os.path.join(ROOT, "op_tools_results/op_capture_results", op, "7", str(n), "2026-01-01-00-00-00")
    os.makedirs(path)
    return path


def save(path, name, args, kwargs=None):
    torch.save({"name": name, "args": args, "kwargs": kwargs or {}, "identifier": "x"}, path)


def good(n, name="torch.add"):
    path = folder(name, n)
    x = torch.arange(6.0).reshape(2, 3)
    save(path + "/input.pth", name, (x, 2.5))
    save(path + "/output.pth", name, (x + 2.5,))
    return path


def change(path, edit):
    """Rewrite a zip with edit(name, data), None for left out."""
    with zipfile.ZipFile(path) as z:
        members = [(n, edit(n, z.read(n))) for n in z.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for name, data in members:
            if data is not None:
                z.writestr(name, data)


class Evil:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


class Settable:
    pass


good(1)
cut = good(2) + "/input.pth"
data = open(cut, "rb").read()
open(cut, "wb").write(data[:len(data) // 2])

change(good(3) + "/input.pth", lambda n, d: None if "/data/" in n else d)
change(good(4) + "/input.pth", lambda n, d: d[:8] if "/data/" in n else d)
# The same tensor with 200 rows: K\x02K\x03 are the numbers 2 and 3.
change(good(5) + "/input.pth", lambda n, d: d.replace(b"K\x02K\x03", b"K\xc8K\x03") if n.endswith("data.pkl") else d)
change(good(6) + "/input.pth", lambda n, d: d[:len(d) // 2] if n.endswith("data.pkl") else d)

save(folder("torch.add", 7) + "/input.pth", "torch.add", (Evil(os.system, HARM), 1))
save(folder("os.system", 8) + "/input.pth", "os.system", (HARM,))
save(folder("torch.os.system", 9) + "/input.pth", "torch.os.system", (HARM,))
save(folder("torch.ops.load_library", 10) + "/input.pth", "torch.ops.load_library.__call__", ("/tmp/none.so",))
save(folder("torch.from_file", 11) + "/input.pth", "torch.from_file", (os.path.join(ROOT, "harmed"), True, 4))
save(folder("torch.add", 12) + "/input.pth", "torch.add", (Evil(eval, f"__import__('os').system('{HARM}')"), 1))
save(folder("torch.add", 13) + "/input.pth", "torch.add", (Evil(getattr, "load", "upper"), 1))
# Builds a state into something that it did not make.
change(good(14) + "/input.pth", lambda n, d: pickle.dumps({"name": "torch.add", "args": (1, 2), "kwargs": {}}, 2)[:-1] +
       b"ctorch\nSize\n}X\x03\x00\x00\x00abcX\x01\x00\x00\x00xsb0." if n.endswith("data.pkl") else d)
open(folder("torch.add", 15) + "/input.pth", "w").write("not a zip at all")
old = io.BytesIO()
torch.save({"name": "torch.add", "args": (torch.ones(2), 1), "kwargs": {}}, old, _use_new_zipfile_serialization=False)
open(folder("torch.add", 16) + "/input.pth", "wb").write(old.getvalue())
torch.save([1, 2, 3], folder("torch.add", 17) + "/input.pth")
throws = folder("torch.add", 18)
save(throws + "/input.pth", "torch.add", (torch.ones(2), torch.ones(3)))
save(throws + "/output.pth", "torch.add", (torch.ones(2),))
save(folder("torch.no_such_op", 19) + "/input.pth", "torch.no_such_op", (torch.ones(2),))
ends = folder("os._exit", 20)
save(ends + "/input.pth", "os._exit", (3,))
save(ends + "/output.pth", "os._exit", (None,))
os.unlink(good(21) + "/output.pth")
good(22)
