"""Reading captures. What a pickle may name is listed here; all else is refused."""
import math
import os
import pickle
import stat
import zipfile

import torch

from ditrace_runner.errors import Damaged, Refused
from ditrace_runner.memory import in_units, is_short

STORAGES = {"FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16",
            "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16",
            "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
            "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128", "UntypedStorage": "uint8"}


class StorageType:
    def __init__(self, name):
        self.dtype = getattr(torch, STORAGES[name])


class Stored:
    """The bytes of a storage, and where it lay."""

    def __init__(self, data, dtype, location):
        self.dtype, self.location = dtype, location
        if len(data):
            self.bytes = torch.frombuffer(data, dtype=torch.uint8)
        else:
            self.bytes = torch.empty(0, dtype=torch.uint8)

    def tensor(self, dtype, offset, size, stride):
        item = torch.empty(0, dtype=dtype).element_size()
        whole = self.bytes[:len(self.bytes) // item * item].view(dtype) if dtype != torch.uint8 else self.bytes
        last = offset + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else 0
        if offset < 0 or any(s < 0 for s in stride) or any(n < 0 for n in size) or last >= max(len(whole), 1):
            raise Damaged(f"a tensor of {list(size)} at {offset} reaches beyond its storage of {len(whole)} elements")
        if all(size) and not len(whole):
            raise Damaged(f"a tensor of {list(size)} has no storage")
        return torch.as_strided(whole, size, stride, offset)


LOCATIONS = "_ditrace_location"  # attribute of a loaded tensor: the device it was on


def rebuild(stored, offset, size, stride, requires_grad=False, hooks=None, *more):
    dtype = next((m for m in more if isinstance(m, torch.dtype)), stored.dtype)
    t = stored.tensor(dtype, offset, size, stride)
    if requires_grad and (dtype.is_floating_point or dtype.is_complex):
        t.requires_grad_(True)
    setattr(t, LOCATIONS, stored.location)
    for extra in more:
        if isinstance(extra, dict):
            t = t.conj() if extra.get("conj") else t
            t = torch._neg_view(t) if extra.get("neg") else t
    return t


def rebuild_parameter(data, requires_grad, hooks=None, *state):
    t = data.detach().requires_grad_(bool(requires_grad))
    setattr(t, LOCATIONS, getattr(data, LOCATIONS, "cpu"))
    return t


def rebuild_meta(dtype, size, stride, requires_grad):
    t = torch.empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)
    setattr(t, LOCATIONS, "meta")
    return t


def layout(name):
    found = getattr(torch, str(name).rsplit(".", 1)[-1], None)
    if not isinstance(found, torch.layout):
        raise Refused(f"wants {name} as a layout")
    return found


def of_items(make):
    """make(), of what the file has in full: a range says of many numbers with few bytes."""
    def made(items=()):
        if not isinstance(items, (tuple, list)):
            raise Refused(f"wants a {make.__name__} of a {type(items).__name__}")
        return make(items)

    return made


HARMLESS = {("torch._utils", "_rebuild_tensor_v2"): rebuild, ("torch._utils", "_rebuild_tensor"): rebuild,
            ("torch._utils", "_rebuild_tensor_v3"): rebuild,
            ("torch._utils", "_rebuild_meta_tensor_no_storage"): rebuild_meta,
            ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
            ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter,
            ("torch.serialization", "_get_layout"): layout, ("torch", "device"): torch.device,
            ("torch", "Size"): of_items(torch.Size), ("collections", "OrderedDict"): of_items(dict),
            ("builtins", "complex"): complex, ("__builtin__", "complex"): complex,
            ("builtins", "slice"): slice, ("__builtin__", "slice"): slice, ("builtins", "range"): range,
            ("builtins", "set"): of_items(set), ("__builtin__", "set"): of_items(set),
            ("builtins", "Ellipsis"): Ellipsis, ("__builtin__", "Ellipsis"): Ellipsis,
            ("builtins", "NotImplemented"): NotImplemented,
            ("torch", "contiguous_format"): torch.contiguous_format, ("torch", "channels_last"): torch.channels_last,
            ("torch", "channels_last_3d"): torch.channels_last_3d, ("torch", "preserve_format"): torch.preserve_format}


class Careful(pickle._Unpickler):
    """Of what a pickle can do, what captures need: no code of the file's choice runs."""

    dispatch = dict(pickle._Unpickler.dispatch)

    def __init__(self, file, persistent):
        super().__init__(file, encoding="utf-8")
        self.persistent = persistent

    def find_class(self, module, name):
        known = HARMLESS.get((module, name))
        if known is not None:
            return known
        if module in ("torch", "torch.storage") and name in STORAGES:
            return StorageType(name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if module == "torch.return_types" and isinstance(getattr(torch.return_types, name, None), type):
            return getattr(torch.return_types, name)
        raise Refused(f"wants {module}.{name}")

    def persistent_load(self, pid):
        return self.persistent(pid)

    def load_reduce(self):
        args = self.stack.pop()
        func = self.stack[-1]
        if not (func in HARMLESS.values() if not isinstance(func, type) else self.is_harmless_type(func)):
            raise Refused(f"wants to call {func!r}")
        self.stack[-1] = func(*args)

    @staticmethod
    def is_harmless_type(t):
        return t in HARMLESS.values() or t.__module__ == "torch.return_types"

    def load_build(self):
        state = self.stack.pop()
        if not (isinstance(self.stack[-1], (torch.Tensor, dict)) and (state == {} or isinstance(state, dict))):
            raise Refused(f"wants to set the state of {type(self.stack[-1]).__name__}")

    def refuse_opcode(self):
        raise Refused("wants an instance of a class")

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.BUILD[0]] = load_build
    for _op in (pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4):
        dispatch[_op[0]] = refuse_opcode


class Limit:
    """How much memory one file may ask for: max_bytes, or what the file has, where that is more. A file may say of much
    with few bytes: by compression, by members that share them, by strides of 0, and by holes."""

    VALUES, VIEWS = 1000000, 4  # values in a file; times its own size that the tensors in it may have together

    def __init__(self, file, max_bytes):
        size = os.fstat(file.fileno()).st_size
        if os.lseek(file.fileno(), 0, os.SEEK_HOLE) < size:
            size = min(size, os.fstat(file.fileno()).st_blocks * 512)
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        self.held, self.max_bytes = size, max_bytes

    def check(self, size, allowed, what):
        if size > max(allowed, self.max_bytes):
            raise Damaged(f"{what} would take {in_units(size)} of memory, and the file has {in_units(self.held)}; "
                          f"if it is good, --max-bytes {math.ceil(size / 2**20)}M lets it be read")

    def check_members(self, members):
        self.check(sum(m.file_size for m in members), self.held, "what it has packed")

    def check_values(self, x):
        left, count, tensors = [x], 0, {}
        while left:
            x = left.pop()
            count += 1
            if count > self.VALUES:
                raise Damaged(f"it has more than {self.VALUES:,} values")
            if isinstance(x, torch.Tensor):
                tensors[id(x)] = x.numel() * x.element_size()
            elif isinstance(x, dict):
                left.extend(x.values())
            elif isinstance(x, (tuple, list)):
                left.extend(x)
        self.check(sum(tensors.values()), self.VIEWS * self.held, "its tensors")


def open_file(path):
    """A regular file, to read: one of a stranger may be a pipe that nobody writes to."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Damaged("it is no file")
    return os.fdopen(fd, "rb")


def read_zip(path, max_bytes):
    with open_file(path) as f:
        limit = Limit(f, max_bytes)
        found = unpacked(f, limit)
        limit.check_values(found)
        return found


def unpacked(file, limit):
    with zipfile.ZipFile(file) as z:
        limit.check_members(z.infolist())
        names = z.namelist()
        top = next((n[:-len("data.pkl")] for n in names if n.endswith("/data.pkl")), None)
        if top is None:
            raise Damaged("there is no data.pkl in it")
        if top + "byteorder" in names and z.read(top + "byteorder") != b"little":
            raise Damaged("it was written on a big-endian machine")
        loaded = {}

        def storage(pid):
            if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage" and isinstance(pid[1], StorageType)):
                raise Damaged("a storage that is none")
            kind, key, location, numel = pid[1:]
            if key not in loaded:
                try:
                    data = bytearray(z.read(f"{top}data/{key}"))
                except KeyError:
                    raise Damaged(f"the storage data/{key} is missing") from None
                item = torch.empty(0, dtype=kind.dtype).element_size()
                if len(data) < numel * item:
                    raise Damaged(f"the storage data/{key} has {len(data)} bytes instead of {numel * item}")
                loaded[key] = Stored(data, kind.dtype, location)
            return loaded[key]

        with z.open(top + "data.pkl") as f:
            return Careful(f, storage).load()


def load(path, request):
    """The dict of one file of a capture, as the request says: trusted, or within so many bytes."""
    name = os.path.basename(path)
    try:
        if request["trust"]:
            try:
                d = torch.load(path, map_location="cpu", weights_only=False)
            except TypeError:
                d = torch.load(path, map_location="cpu")
        else:
            d = read_zip(path, request["max_bytes"])
    except Refused as e:
        raise Refused(f"{name} {e}, which is more than numbers") from None
    except Damaged as e:
        raise Damaged(f"{name}: {e}") from None
    except zipfile.BadZipFile as e:
        raise Damaged(f"{name}: {e}") from None
    except Exception as e:  # whatever a damaged pickle brings about
        if is_short(e):
            raise
        raise Damaged(f"{name}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else 'cannot be read'}") from None
    if not (isinstance(d, dict) and isinstance(d.get("name"), str) and isinstance(d.get("args"), (tuple, list)) and
            isinstance(d.get("kwargs") or {}, dict)):
        raise Damaged(f"{name} has not the name, args and kwargs of a capture")
    return d
