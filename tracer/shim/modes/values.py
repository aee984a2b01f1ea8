"""What a call was given and gave."""
import collections
import linecache
import os
import traceback

import torch

from ditrace_modes.link import LINK
from ditrace_modes.names import LATER
from ditrace_modes.native import place
from ditrace_runner.call import walk
from ditrace_runner.load import LOCATIONS


def each(x):
    """Every leaf in a nest of tuples, lists and dicts."""
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        for v in x:
            yield from each(v)
    elif isinstance(x, dict):
        for v in x.values():
            yield from each(v)
    else:
        yield x


ORDERED_DICT = collections.OrderedDict
DICTS = (dict, ORDERED_DICT)
KNOWN = (torch.Tensor, torch.Size, torch.dtype, torch.device, torch.layout, type(None), str, bytes, int, float, complex)


def opaque(x):
    """The type of something in a nest that may hold tensors, where rebuilt() does not look for them; None: there is none."""
    if type(x) in DICTS or isinstance(x, (tuple, list)):
        return next((found for v in (x.values() if type(x) in DICTS else x) for found in [opaque(v)] if found), None)
    return None if isinstance(x, KNOWN) else type(x)


def why_opaque(x):
    unknown = opaque(x)
    return unknown and f"gives a {unknown.__name__}, which cannot be looked into"


def rebuilt(x, f):
    """The same nest, of the same types, with f(leaf) for every leaf."""
    if isinstance(x, dict):
        return type(x)((k, rebuilt(v, f)) for k, v in x.items()) if type(x) in DICTS else f(x)
    if isinstance(x, torch.Size):
        return x
    if isinstance(x, (tuple, list)):
        made = [rebuilt(v, f) for v in x]
        return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
    return f(x)


COLUMNS = ["name", "shape", "stride", "numel", "dtype", "device", "requires_grad", "layout", "data_ptr"]


def address_of(x):
    """Not of a device whose tensors have none: to be asked for it ends the process there, before PyTorch 2."""
    if x.device.type in LATER:
        raise RuntimeError("its memory has no address")
    return x.data_ptr()


def row_of(name, x):
    if not isinstance(x, torch.Tensor):
        return [name] + [""] * (len(COLUMNS) - 1) + [str(x)[:200] if not callable(x) else type(x).__name__]
    copied_from = getattr(x, LOCATIONS, None)
    try:
        pointer = str(address_of(x)) if copied_from is None else ""
    except RuntimeError:  # of a device whose tensors have none
        pointer = ""
    return [name, str(tuple(x.shape)), str(tuple(x.stride())), str(x.numel()), str(x.dtype)[6:], copied_from or str(x.device),
            str(x.requires_grad), str(x.layout), pointer, ""]


def all_of(x):
    """The arguments or the results, also of one alone."""
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def rows_of(title, args, kwargs=None):
    """As ditorch's tables name them: title for one alone, title[i], title key."""
    rows = []
    whole = all_of(args)
    for path, x in walk(whole):
        alone = len(whole) == 1 and path == "[0]"
        rows.append(row_of(title if alone else title + path, x))
    for key, value in (kwargs or {}).items():
        rows += [row_of(f"{title} {key}{path}", x) for path, x in walk(value)]
    return rows


def described_in(rows):
    """The table of rows_of()."""
    if any(r[-1] for r in rows):
        return COLUMNS + ["value"], rows
    return COLUMNS, [r[:-1] for r in rows]


def shown(name, number, at, *tables, about=""):
    """Tables, (columns, rows) each, of the call of that number, ditorch's forward_id, at a line; with the stack, where
    that is wanted and this is the call itself, not its backward."""
    wanted = LINK.settings["stacks"] and at and place() == at
    return dict(title=f"{name}    forward_id: {number}{about}", where=where_text(at), tables=tables,
                stack=stack_texts(at) if wanted else [])


def tell_tables(*what):
    LINK.say(event="tables", **shown(*what))


def stack_texts(at):
    """The lines that led to the one at place `at`, the outermost first."""
    frames = traceback.extract_stack()
    while frames and (frames[-1].filename, frames[-1].lineno) != at[:2]:
        frames.pop()
    return [f"{f.filename}:{f.lineno} {f.name} {f.line}" for f in frames]


OWN_FILES = os.path.dirname(torch.__file__) + os.sep


def line_of(frame):
    """(file, line, function) of a frame that is the program's own."""
    file = frame.f_code.co_filename
    if file.startswith((OWN_FILES, "ditrace/", "<frozen")) or os.sep + "contextlib.py" in file:
        return None
    return file, frame.f_lineno, frame.f_code.co_name


def place_text(at):
    return f"{os.path.basename(at[0])}:{at[1]} {at[2]}" if at else "(no line of the program)"


def where_text(at):
    if at is None:
        return "(no line of the program)"
    return f"{at[0]}:{at[1]} {at[2]}: {linecache.getline(at[0], at[1]).strip()}"


def kind_of(x):
    if isinstance(x, torch.Tensor):
        return (tuple(x.shape), x.dtype, x.device)
    return x if isinstance(x, (int, float, bool, str, torch.dtype)) else type(x)


class Seen:
    """Which calls a table was made of: each that differs in its place, shapes or dtypes, once."""

    MOST = 4096

    def __init__(self):
        self.keys = set()

    def is_new(self, name, at, args, kwargs):
        key = (name, at, tuple(kind_of(x) for x in each((args, kwargs))))
        try:
            if key in self.keys or len(self.keys) >= self.MOST:
                return False
            self.keys.add(key)
        except TypeError:
            return False
        return True
