# Captures of this process's own tensors, made by the capture tool from outside, loaded again with torch.load and
# compared with the tensors. capture_files.py TOOL FOLDER...: runs the check that each folder is named after.
import ctypes
import json
import math
import os
import random
import signal
import struct
import subprocess
import sys
import time
import traceback
import zipfile

import torch

TOOL = sys.argv[1]
NEW = tuple(map(int, torch.__version__.split("+")[0].split(".")[0:1])) >= (2,)
FULL_1_13, FULL, NOT_1_13, NO_QUANTIZER = 1, 2, 4, 8
MULTIPLY = "mul.Tensor(Tensor self, Tensor other) -> Tensor"

KILLS = int(os.environ["DITRACE_TEST_KILLS"])


def check(ok, *what):
    if not ok:
        raise AssertionError(" ".join(map(str, what)))


class Tool:
    def __init__(self, root, limit=0, user=None):
        self.p = subprocess.Popen([TOOL, str(os.getpid()), root, str(limit)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, user=user)

    def __call__(self, **o):
        self.p.stdin.write(json.dumps(o) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        check(line, "the tool has died")
        return json.loads(line)

    def write(self, args=(), results=(), op=MULTIPLY, part=0, **o):
        return self(op=op, part=part, args=list(map(value, args)), results=list(map(value, results)), **o)


def storage_of(t):
    return t.untyped_storage() if hasattr(t, "untyped_storage") else t.storage().untyped()


def tensor(t, **more):
    s = storage_of(t)
    o = dict(dtype=str(t.dtype)[6:], shape=list(t.shape), stride=list(t.stride()), numel=t.numel(),
             offset=t.storage_offset(), data_ptr=t.data_ptr() if t.numel() else 0, requires_grad=t.requires_grad,
             storage=s._cdata, storage_bytes=s.nbytes(), parameter=isinstance(t, torch.nn.Parameter))
    if t.dtype.is_complex or t.dtype.is_floating_point:
        o.update(conj=t.is_conj(), neg=t.is_neg())
    o.update(more)
    return o


class Raw:
    """A value in the tool's own format."""
    def __init__(self, **o):
        self.o = o


def value(v):
    if isinstance(v, Raw):
        return v.o
    if v is None:
        return None
    if isinstance(v, torch.Tensor):
        return {"tensor": tensor(v)}
    if isinstance(v, (list, tuple)):
        return {"list": list(map(value, v))}
    if isinstance(v, bool):
        return {"bool": v}
    if isinstance(v, int):
        return {"int": v} if v < 2**63 else {"scalar_uint": str(v)}
    if isinstance(v, float):
        return {"float": v if math.isfinite(v) else str(v)}
    if isinstance(v, complex):
        return {"complex": [str(v.real), str(v.imag)]}
    if isinstance(v, str):
        return {"str": v}
    if isinstance(v, torch.dtype):
        return {"dtype": str(v)[6:]}
    if isinstance(v, torch.device):
        return {"device": [["cpu", "cuda"].index(v.type), -1 if v.index is None else v.index]}
    if isinstance(v, torch.layout):
        return {"layout": ["torch.strided", "torch.sparse_coo", "torch.sparse_csr"].index(str(v))}
    if isinstance(v, torch.memory_format):
        return {"memory_format": ["torch.contiguous_format", "torch.preserve_format",
                                  "torch.channels_last", "torch.channels_last_3d"].index(str(v))}
    raise TypeError(type(v))


def content(t):
    """The bytes of the elements in row-major order, for any dtype."""
    size, s = t.element_size(), storage_of(t)
    whole = ctypes.string_at(s.data_ptr(), s.nbytes()) if s.nbytes() else b""
    if t.dtype in (getattr(torch, "quint4x2", 0), getattr(torch, "quint2x4", 0)):
        return whole
    if t.is_contiguous():
        at = t.storage_offset() * size
        return whole[at:at + t.numel() * size]
    index = [0]
    for n, stride in zip(t.shape, t.stride()):
        index = [i + k * stride for i in index for k in range(n)]
    index = [i + t.storage_offset() for i in index]
    return b"".join(whole[i * size:(i + 1) * size] for i in index)


def same_tensor(a, b, what=""):
    check(type(a) is type(b), what, type(a), type(b))
    for f in ("dtype", "shape", "requires_grad", "layout", "device"):
        check(getattr(a, f) == getattr(b, f), what, f, getattr(a, f), getattr(b, f))
    check(a.stride() == b.stride() and a.storage_offset() == b.storage_offset(), what, "strides")
    check(content(a) == content(b), what, "bytes differ")


def same(a, b, what=""):
    if isinstance(b, torch.Tensor):
        return same_tensor(a, b, what)
    check(type(a) is type(b), what, type(a), type(b))
    if isinstance(b, (list, tuple)):
        check(len(a) == len(b), what, "length")
        for x, y in zip(a, b):
            same(x, y, what)
    elif isinstance(b, float):
        check(struct.pack("d", a) == struct.pack("d", b), what, a, b)
    elif isinstance(b, complex):
        same((a.real, a.imag), (b.real, b.imag), what)
    else:
        check(a == b, what, a, b)


def load(path, limits=0):
    """torch.load; also checks that weights_only loads the file unless the limits say otherwise."""
    full = limits & (FULL if NEW else FULL | FULL_1_13)
    try:
        o = torch.load(path, weights_only=True)
        check(not full, path, "loads in spite of", limits)
        return o
    except Exception as e:
        check(full, path, "does not load:", str(e)[:300])
    return torch.load(path, weights_only=False)


def sound(path):
    """A zip file that other programs can read: checksums, no compression, alignment."""
    z, name = zipfile.ZipFile(path), os.path.basename(path)[:-4]
    check(z.testzip() is None, path, "checksum")
    with open(path, "rb") as f:
        for i in z.infolist():
            check(i.compress_type == 0 and i.filename.startswith(name + "/"), i)
            f.seek(i.header_offset)
            h = struct.unpack("<4s5HIII2H", f.read(30))
            at = i.header_offset + 30 + h[9] + h[10]
            check(h[0] == b"PK\3\4" and h[6] == i.CRC and h[8] == i.file_size, "header", i)
            check(at % 64 == 0, path, i.filename, "at", at)
    return z


def random_tensor(dtype, n):
    if dtype is torch.bool:
        return torch.randint(0, 2, (n,), dtype=torch.uint8).view(torch.bool)
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (n * size,), dtype=torch.uint8).view(dtype)


def dtypes():
    names = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
             "complex128", "bool", "bfloat16"]
    new = ["complex32", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz",
           "float8_e8m0fnu", "float4_e2m1fn_x2", "uint16", "uint32", "uint64", "bits8", "bits16", "bits1x8"]
    return [getattr(torch, n) for n in names + (new if NEW else [])]


def views(t):
    """Views of a tensor of 480 elements."""
    yield "all", t
    yield "matrix", t.view(20, 24)
    yield "transposed", t.view(20, 24).t()
    yield "gaps", t.view(20, 24)[3::2, 1:20:3]
    yield "offset", t[17:33]
    yield "one", t[5]
    yield "expanded", t[2:5].view(3, 1).expand(3, 7)
    yield "permuted", t.view(2, 3, 4, 20).permute(0, 3, 1, 2)
    yield "six", t.view(2, 2, 2, 3, 4, 5)[:, :, :, 1:, ::2].transpose(0, 5)
    yield "overlapping", torch.as_strided(t, (5, 4), (2, 1), 9)
    yield "empty", t[:0]
    yield "empty view", t[40:40].view(0, 3)
    yield "ones", t[7:8].view(1, 1, 1)


def check_dtypes(tool):
    for i, dtype in enumerate(dtypes()):
        t = random_tensor(dtype, 480)
        for what, v in views(t):
            r = tool.write([v, v], id=i)
            check(r["rc"] == 0, dtype, what, r["what"])
            z = sound(r["path"])
            check(sum("/data/" in n for n in z.namelist()) == 1, "storages", z.namelist())
            got = load(r["path"], r["limits"])
            check(got["name"] == "torch.mul" and got["kwargs"] == {}, got["name"], got["kwargs"])
            same(got["args"], (v, v), (dtype, what))
            want = NOT_1_13 if i >= 12 else 0
            check(r["limits"] == want, dtype, "limits", r["limits"])
    print("#", i + 1, "dtypes")


def check_grad(tool):
    """requires_grad, Parameters, conjugate and negative bits."""
    a = torch.randn(3, 4, requires_grad=True)
    p = torch.nn.Parameter(torch.randn(4))
    q = torch.nn.Parameter(torch.randn(4), requires_grad=False)
    r = tool.write([a, p, q, (a * 2)])
    args = load(r["path"], r["limits"])["args"]
    same(args[:3], (a, p, q))
    check(args[3].requires_grad and torch.equal(args[3], a * 2), "not a leaf")
    c = torch.randn(5, dtype=torch.complex64)
    r = tool.write([c.conj(), c.conj().imag])
    check(r["limits"] == NOT_1_13, "conj", r["limits"])
    if NEW:
        x, y = load(r["path"])["args"]
        check(x.is_conj() and torch.equal(x, c.conj()), "conj")
        check(y.is_neg() and torch.equal(y, c.conj().imag), "neg")


def check_shared(tool):
    a = torch.arange(100.0)
    m = torch.view_as_real(torch.randn(6, dtype=torch.complex64))
    c = torch.view_as_complex(m)
    args = [a[10:20], a, [a.view(10, 10).t(), a[:0]], m, c, a[50:].clone()]
    r = tool.write(args)
    z = sound(r["path"])
    check(sum("/data/" in n for n in z.namelist()) == 4, "a, m, c, the clone:", z.namelist())
    got = load(r["path"])["args"]
    same(got, (args[0], args[1], args[2], m, c, args[5]))
    got[1][12] = -1
    check(got[0][2] == -1 and got[2][0][2, 1] == -1, "views of one storage")
    # If the size of the storage is unknown, it extends as far as its tensors do.
    o = tensor(a[10:20])
    o.pop("storage_bytes")
    r = tool.write([Raw(tensor=o)])
    check(zipfile.ZipFile(r["path"]).getinfo("input/data/0").file_size == 80, "cut storage")
    same(load(r["path"])["args"], (a[10:20],))


def check_values(tool):
    plain = [None, True, False, 0, 1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -1, -2**31, -2**31 - 1,
             2**63 - 1, -2**63, 2**63, 2**64 - 1, "", "sum", "\u00e9\U0001f600\n", [], [1, [2, None]],
             torch.float32, torch.complex64, torch.int64, torch.strided, torch.sparse_coo]
    full_1_13 = [1.5, -0.0, 1e300, 5e-324, math.inf, -math.inf, math.nan, 1 + 2j, complex(-0.0, math.inf),
                 torch.device("cpu"), torch.device("cuda"), torch.device("cuda", 1), torch.bool,
                 torch.bfloat16, torch.uint8]
    full = [torch.channels_last, torch.contiguous_format, torch.preserve_format, torch.channels_last_3d]
    for limits, values in (0, plain), (FULL_1_13, full_1_13), (FULL, full):
        for v in values + [values]:
            r = tool.write([v, 1])
            check(r["rc"] == 0 and r["limits"] == limits, repr(v), r)
            sound(r["path"])
            got = load(r["path"], limits)["args"][0]
            check(isinstance(v, torch.memory_format) and got is v or same(got, v, repr(v)) is None)
    r = tool.write([Raw(scalar_float=2.5), Raw(scalar_int=-3), Raw(scalar_bool=True)])
    same(load(r["path"], r["limits"])["args"], (2.5, -3, True))


def check_refused(tool):
    a = torch.zeros(3)
    cases = {
        "memory on a device: cuda:1": Raw(tensor=tensor(a, device=1, index=1)),
        "layout": Raw(tensor=tensor(a, layout=1)),
        "without memory": Raw(tensor=tensor(a, data_ptr=0)),
        "contradict": Raw(tensor=tensor(a, numel=4)),
        "contradict each other": Raw(tensor=tensor(a, storage_bytes=8)),
        "not all is known": Raw(tensor=tensor(a, unknown=2)),
        "no layout yet": Raw(not_decoded="no layout yet"),
        "random number generator": Raw(generator=1),
    }
    for i, (why, v) in enumerate(cases.items()):
        for args in [v], [1, [a, v]]:
            r = tool.write(args, id=900 + i)
            check(r["rc"] == -95 and why in r["what"] and not r["over"], why, r)
            check(not os.path.exists(os.path.dirname(os.path.dirname(r["path"]))), "a folder for nothing")
    r = tool.write([cases["memory on a device: cuda:1"]])
    check("from outside" in r["hint"] and ":op_capture'" in r["hint"], r)
    r = tool.write([Raw(tensor=tensor(a, data_ptr=4096, offset=0, storage_bytes=-1))])
    check(r["rc"] == -14 and not r["over"], r)
    check(not [n for n in os.listdir(os.path.dirname(r["path"])) if n.endswith(".part")], "left behind")
    check(not os.path.exists(r["path"]), "a file of what could not be read")


def check_meta(tool):
    t = torch.empty(3, 4, device="meta")
    r = tool.write([Raw(tensor=dict(dtype="float32", shape=[3, 4], stride=[4, 1], numel=12, device=14))])
    got = load(r["path"])["args"][0]
    check(got.is_meta and got.shape == t.shape and got.dtype == t.dtype, got)


def check_quantized(tool):
    f = torch.randn(6, 8)
    scale, zero = torch.rand(6), torch.zeros(6)
    each = [torch.quantize_per_tensor(f, 0.1, 3, d) for d in (torch.qint8, torch.quint8, torch.qint32)]
    each += [torch.quantize_per_channel(f, scale, zero, 0, d) for d in (torch.quint4x2, torch.quint2x4)]
    for t in each:
        r = tool.write([t])
        check(r["rc"] == 0 and r["limits"] == NO_QUANTIZER, r)
        got = load(r["path"])["args"][0]
        check(got.dtype == t.dtype and got.shape == t.shape, t.dtype)
        check(torch.equal(got.int_repr(), t.int_repr()), t.dtype)
        check(content(got)[:storage_of(t).nbytes()] == content(t), t.dtype, "bytes")


def described(v):
    """How ditorch's JSON describes a value (op_tools/save_op_args.py)."""
    if isinstance(v, torch.Tensor):
        return {"device": "cpu", "dtype": str(v.dtype)[6:], "numel": v.numel(), "shape": str(tuple(v.shape)),
                "stride": list(v.stride()), "requires_grad": v.requires_grad, "layout": "torch.strided",
                "data_ptr": v.data_ptr()}
    return [described(x) for x in v] if isinstance(v, (list, tuple)) else str(v)


def check_layout(tool):
    """Paths, parts, keywords, JSON."""
    a, b = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
    add = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    sort = "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"
    node = "node(Tensor[] grad_outputs) -> Tensor[] grad_inputs"
    before = int(time.time())
    r = tool.write([a, b, 2], op=add, id=161, pid=42)
    parts = r["path"].split("/")
    check(parts[-7:-1][:5] == ["op_tools_results", "op_capture_results", "torch.add", "42", "161"], r["path"])
    when = time.mktime(time.strptime(parts[-2], "%Y-%m-%d-%H-%M-%S"))
    check(before - 1 <= when <= time.time() + 1 and parts[-1] == "input.pth", r["path"])
    got = load(r["path"])
    same(got["args"], (a, b))
    check(list(got) == ["name", "args", "kwargs", "identifier"], list(got))
    check(got["kwargs"] == {"alpha": 2} and got["identifier"] == "161/%s/input" % parts[-2], got)
    with open(r["path"] + ".json") as f:
        text = f.read()
    want = {"args": [described(a), described(b)], "kwargs": {"alpha": "2"}, "op": "torch.add"}
    check(text == json.dumps(want, indent=4), text)
    check(r["bytes"] == os.path.getsize(r["path"]) + len(text) and r["total"] >= r["bytes"], r)
    # Arguments that have their default are left out.
    got = load(tool.write([a, b, 1], op=add)["path"])
    check(len(got["args"]) == 2 and got["kwargs"] == {}, got)
    got = load(tool.write([a, 0, False], op=sort)["path"])
    check(got["args"][1:] == (0,), got["args"])
    # Several results are one tuple; one is itself; none is None.
    v, i = torch.sort(b)
    r = tool.write([a], [v, i], op=sort, part=1)
    check(r["path"].endswith("/output.pth"), r["path"])
    same(load(r["path"])["args"], ((v, i),))
    with open(r["path"] + ".json") as f:
        check(json.load(f) == {"args": [[described(v), described(i)]], "op": "torch.sort"})
    same(load(tool.write([a], [v], part=1)["path"])["args"], (v,))
    same(load(tool.write([a], [], part=1)["path"])["args"], (None,))
    # Gradients.
    r = tool.write([[v, None]], [[a, None, b]], op=node, part=2, id=7)
    check(r["path"].endswith("/grad_inputs.pth"), r["path"])
    same(load(r["path"])["args"], (a, None, b))
    r = tool.write([[v, None]], [[a, None, b]], op=node, part=3, id=7)
    check(r["path"].endswith("/grad_outputs.pth"), r["path"])
    same(load(r["path"])["args"], (v, None))
    values = [1e-05, True, None, math.nan, 1 + 2j, 2.5j, complex(-0.0, -1), complex(math.nan, -math.inf), "x\u00e9", torch.float16, torch.device("cuda", 1),
              torch.channels_last, 2**64 - 1, [1, [2.5, None]]]
    r = tool.write(values, op="f(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m, int n) -> ()")
    with open(r["path"] + ".json") as f:
        got = json.load(f)["args"]
        check(got == described(values), got, described(values))


def check_ops(tool):
    """Captured ops run again under ditorch's names."""
    import importlib

    def run(path, limits):
        o = load(path, limits)
        f = importlib.import_module("torch")
        for part in o["name"].split(".")[1:]:
            f = getattr(f, part)
        return f(*o["args"], **o["kwargs"])

    a, b = torch.randn(4, 6), torch.randn(4, 6)
    w, bias = torch.randn(5, 6), torch.randn(5)
    cases = [
        ("to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
         "MemoryFormat? memory_format=None) -> Tensor(a)", [a, torch.float64, False, False, None], a.double()),
        ("to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
         "bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None)"
         " -> Tensor(a)", [a, torch.float32, torch.strided, torch.device("cpu"), False, False, False, None], a),
        ("mul.Tensor(Tensor self, Tensor other) -> Tensor", [a, b], a * b),
        ("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", [a, b, Raw(scalar_int=3)], torch.add(a, b, alpha=3)),
        ("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", [a, b, Raw(scalar_int=1)], a - b),
        ("div.Tensor(Tensor self, Tensor other) -> Tensor", [a, b], a / b),
        ("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", [a, -1, True],
         tuple(torch.sort(a, descending=True))),
        ("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", [a, None], a.sum()),
        ("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
         [a, [1], False, torch.float64], a.sum(1, dtype=torch.float64)),
        ("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", [a.bfloat16(), w.bfloat16(), bias.bfloat16()],
         torch.nn.functional.linear(a.bfloat16(), w.bfloat16(), bias.bfloat16())),
        ("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", [a, w, None],
         torch.nn.functional.linear(a, w)),
        ("_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
         "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
         [a, torch.float64, None, None, None, False, None], a.double()),
    ]
    for op, args, want in cases:
        r = tool.write(args, op=op)
        got = run(r["path"], r["limits"])
        same(tuple(got) if isinstance(want, tuple) else got, want, op)


def check_stats(tool):
    def number(s):
        return float.fromhex(s)

    def close(a, b, what, rel=1e-12, least=0.0):
        bound = rel * max(abs(a), abs(b), least)
        check(math.isnan(a) and math.isnan(b) or a == b or abs(a - b) <= bound, what, a, b)

    def one(t, what, **more):
        r = tool(stats=tensor(t, **more))
        check(r["rc"] == 0, what, r)
        x = t.reshape(-1)
        quantized = t.is_quantized
        if quantized:
            x = t.int_repr().reshape(-1)
        if x.is_complex():
            x = torch.view_as_real(x.to(torch.complex128))
            x = [math.nan if math.isnan(a) or math.isnan(b) else math.hypot(a, b) for a, b in x.tolist()]
        elif x.dtype.is_floating_point:
            x = x.to(torch.float64).tolist()
        else:
            x = x.tolist()
        f = [float(v) for v in x]
        finite = [v for v in f if math.isfinite(v)]
        real = [v for v in x if not math.isnan(v)]
        for key, want in (("count", len(x)), ("nan", len(x) - len(real)), ("pos_inf", f.count(math.inf)),
                          ("neg_inf", f.count(-math.inf)), ("zeros", sum(v == 0 for v in f))):
            check(r[key] == want, what, key, r[key], want)
        close(number(r["min"]), float(min(real)) if real else math.nan, (what, "min"))
        close(number(r["max"]), float(max(real)) if real else math.nan, (what, "max"))
        if r["is_int"] and x:
            check((r["min_int"] % 2**64, r["max_int"] % 2**64) == (int(min(x)) % 2**64, int(max(x)) % 2**64), what, r)
        n = len(finite)
        # Exact sums, rounded once.
        mean = math.fsum(finite) / n if n else math.nan
        big = max(map(abs, finite), default=0) or 1.0
        close(number(r["mean"]), mean, (what, "mean"), 1e-12, big)
        m2 = math.fsum(((v - mean) / big) ** 2 for v in finite)
        close(number(r["std"]), big * math.sqrt(m2 / (n - 1)) if n > 1 else math.nan, (what, "std"), 1e-9)
        l2 = big * math.sqrt(math.fsum((v / big) ** 2 for v in finite))
        close(number(r["l2"]), l2 if n or not x else math.nan, (what, "l2"), 1e-9)
        return r

    floats = [torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128]
    floats += [getattr(torch, "float8_" + n) for n in ("e5m2", "e4m3fn", "e5m2fnuz", "e4m3fnuz", "e8m0fnu")] if NEW else []
    ints = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
    ints += [torch.uint16, torch.uint32, torch.uint64] if NEW else []
    for dtype in floats + ints:
        # All codes of the small dtypes; for the large ones random bytes, with infinities and NaN.
        t = random_tensor(dtype, 480)
        if t.element_size() == 1 and dtype is not torch.bool:
            one(torch.arange(256, dtype=torch.uint8).view(dtype), (dtype, "codes"))
        if t.element_size() == 2 and not dtype.is_complex:
            one(torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype), (dtype, "codes"))
        if dtype in floats[:6]:
            one(torch.tensor([math.inf, 0, -0.0, 1, math.nan], dtype=dtype), (dtype, "special"))
        for what, v in views(t):
            r = one(v, (dtype, what))
            packed = torch.frombuffer(bytearray(content(v)) or bytearray(1), dtype=torch.uint8)[:len(content(v))].view(dtype)
            check(one(packed, (dtype, what, "packed"))["hash"] == r["hash"], dtype, what, "hash")
    torch.manual_seed(1)
    big = torch.randn(100003)
    one(big, "many")
    one(big + 1e6, "far from zero")
    one(big.double() * 1e300, "large")
    one(big.double() * 1e-310, "subnormal")
    one(torch.full((9000,), math.nan), "NaN")
    one(big[:99900].view(333, 300)[:, ::3].t(), "large with gaps")
    one(torch.randn(1 << 16)[:: 1 << 12], "far apart")
    one(torch.tensor([2**53 + 1, -2**53 - 1, 2**63 - 1]), "beyond float64")
    one(torch.quantize_per_tensor(torch.randn(50), 0.1, 3, torch.qint8), "quantized")
    check(one(torch.tensor([1.0]), "")["hash"] != one(torch.tensor([-1.0]), "")["hash"], "hash")
    try:
        import numpy
        x = big.double().numpy()
        r = one(big.double(), "numpy")
        for key, want in ("mean", x.mean()), ("std", x.std(ddof=1)), ("l2", numpy.linalg.norm(x)):
            close(number(r[key]), float(want), key, 1e-9, 1.0)
    except ImportError:
        pass
    for key, want in ("std", big.double().std()), ("mean", big.double().mean()), ("l2", big.double().norm()):
        close(number(one(big.double(), "torch")[key]), want.item(), key, 1e-9, 1.0)


def files_of(root):
    return [os.path.join(d, f) for d, _, fs in os.walk(root) for f in fs]


def check_limit(root):
    limit, sum_ = 300000, 0
    tool = Tool(root, limit)
    t = torch.randn(10000)
    for i in range(20):
        r = tool.write([t], id=i)
        if r["rc"]:
            break
        sum_ += r["bytes"]
    check(r["rc"] == -75 and r["over"] and "limit" in r["what"] and "--max-bytes" in r["hint"], r)
    check(i == 7 and sum_ <= limit, i, sum_)
    fs = files_of(root)
    check(sum(map(os.path.getsize, fs)) == sum_ and not [f for f in fs if f.endswith(".part")], fs)
    # The limit is exact to the byte.
    root += "/exact"
    need = Tool(root).write([t])["bytes"]
    for limit, rc in (need, 0), (need - 1, -75):
        check(Tool(root + str(rc), limit).write([t])["rc"] == rc, limit, rc)


def check_full(root):
    """`root` is a file system of 1 MiB."""
    tool, t = Tool(root), torch.randn(60000)
    for i in range(20):
        r = tool.write([t], id=i)
        if r["rc"]:
            break
    check(r["rc"] == -28 and r["over"] and "No space left" in r["what"], r)
    check(i >= 2, i)
    fs = files_of(root)
    check(not [f for f in fs if f.endswith(".part")], fs)
    for f in fs:
        if f.endswith(".pth"):
            same(load(f)["args"], (t,))


def check_unwritable(root):
    t = torch.randn(3)
    os.mkdir(root + "/closed", 0o555)
    user = 65534 if os.getuid() == 0 else None
    for up in (root, root + "/..", root + "/../.."):
        os.chmod(up, 0o755)
    for where, rc in ("/closed", -13), ("/file", -20):
        if where == "/file":
            open(root + where, "w").close()
        r = Tool(root + where, user=user).write([t])
        check(r["rc"] == rc and r["over"] and root + where in r["what"], where, r)


def check_killed(root):
    """Whenever the writer is killed, a file with its final name is complete."""
    t = torch.randn(1 << 18)
    request = json.dumps({"op": MULTIPLY, "args": [value(t), value(t[5:])]})[1:]
    random.seed(1)
    pths = parts = 0
    for i in range(KILLS):
        here = "%s/%d" % (root, i)
        p = subprocess.Popen([TOOL, str(os.getpid()), here], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for k in range(30):
            p.stdin.write('{"id":%d,%s\n' % (k, request))
        p.stdin.flush()
        written = random.randrange(20)
        while p.poll() is None and (sum(f.endswith(".pth") for f in files_of(here)) < written or not os.path.isdir(here)):
            time.sleep(0.001)
        time.sleep(random.random() * 0.003)
        p.send_signal(signal.SIGKILL)
        p.wait()
        for f in files_of(here):
            parts += f.endswith(".part")
            if f.endswith(".pth"):
                pths += 1
                same(load(f)["args"], (t, t[5:]))
            elif f.endswith(".json"):
                with open(f) as j:
                    json.load(j)
    print("#", pths, "files whole,", parts, "were being written")
    check(pths, "none was written")


def run(what, root):
    """Run a check in a child of this process, so that PyTorch is imported once: output to ROOT.said, exit status to
    ROOT.status."""
    pid = os.fork()
    if pid:
        with open(root + ".status", "w") as f:
            print(os.waitpid(pid, 0)[1], file=f)
        return
    said = os.open(root + ".said", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(said, 1)
    os.dup2(said, 2)
    # Lets a child read this process under Yama, too.
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
    torch.manual_seed(0)
    alone = what in ("limit", "full", "unwritable", "killed")
    status = 1
    try:
        globals()["check_" + what](root if alone else Tool(root))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


for root in sys.argv[2:]:
    run(os.path.basename(root), root)
