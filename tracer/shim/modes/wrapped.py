"""Functions that no mode meets, of other modules or classes: wrapped where these have them, for as long as ditrace is there."""
import functools
import importlib.machinery
import inspect
import sys
import threading
import types

import torch.overrides as functions

from ditrace_modes.calls import quietly
from ditrace_modes.link import LINK
from ditrace_modes.names import is_compiling
from ditrace_modes.native import at_end_of_import, changed, is_busy, is_out, pause_busy, refresh, resume_busy
from ditrace_modes.plan import Plan
from ditrace_runner.errors import first_line


class Missing(Exception):
    """Why a function is not wrapped yet, or never will be."""


def is_importing(module):
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def place_of(name):
    """(module or class, attribute, what is there) of "pkg.module.Class.method". Nothing is imported for that."""
    parts = name.split(".")
    n = next((n for n in range(len(parts) - 1, 0, -1) if isinstance(sys.modules.get(".".join(parts[:n])), types.ModuleType)), 0)
    if not n:
        raise Missing(f"{parts[0]} was not imported")
    holder = sys.modules[".".join(parts[:n])]
    if is_importing(holder):
        FINDER.watch(holder.__spec__)
        raise Missing(f"{holder.__name__} is being imported")
    for i in range(n, len(parts)):
        try:
            found = vars(holder)[parts[i]] if isinstance(holder, types.ModuleType) else inspect.getattr_static(holder, parts[i])
        except (KeyError, AttributeError):
            raise Missing(f"{'.'.join(parts[:i])} has no {parts[i]}") from None
        if i < len(parts) - 1:
            holder = found
    return holder, parts[-1], found


def exchange(old, new):
    """Every module that has `old`, by whatever name, has `new` from now on."""
    for module in list(sys.modules.values()):
        if issubclass(type(module), types.ModuleType):  # without asking what stands for a module, which may import it
            names = vars(module)
            for k in [k for k, v in list(names.items()) if v is old]:
                names[k] = new


def wrapper_of(func, change):
    """What stands for func. Its names are those of func: torch.jit looks for them; torch.compile sees func alone."""
    def wrapper(*args, **kwargs):
        if is_compiling_() or is_out_() or is_busy_():
            return func(*args, **kwargs)
        return change(args, kwargs)

    is_compiling_, is_out_, is_busy_ = is_compiling, is_out, is_busy
    code = wrapper.__code__.replace()  # a copy: torch.compile is to compile func, called by it
    new = types.FunctionType(code, getattr(func, "__globals__", {}), getattr(func, "__name__", "wrapper"), None,
                             wrapper.__closure__)
    return functools.update_wrapper(new, func)


class Function:
    """One that is named in full."""

    def __init__(self, name):
        self.name, self.why, self.is_bound, self.undo = name, "", False, None
        self.forget()

    def forget(self):
        """Whoever asks already, by the rules before, tells the list that was."""
        self.plans = []  # one, or none: not asked yet

    def bind(self):
        self.why, self.is_bound = "", True  # already for what runs within wrap
        try:
            self.wrap(*place_of(self.name))
        except Missing as e:
            self.why, self.is_bound = str(e), False

    def wrap(self, holder, attribute, found):
        kind = type(found) if isinstance(found, (staticmethod, classmethod)) else None
        func = found.__func__ if kind else found
        if isinstance(found, types.ClassMethodDescriptorType):
            kind, func = classmethod, lambda cls, *args, **kwargs: found.__get__(None, cls)(*args, **kwargs)
        if self.name.startswith("torch.") and functions.resolve_name(func) is not None:
            return  # the mode meets it
        if isinstance(func, type) or not callable(func):
            raise Missing("it is a class: name the method, as in Class.forward" if isinstance(func, type) else "it cannot be called")
        self.func = func
        new = wrapper_of(func, self.changed)
        new = kind(new) if kind else new
        had = attribute in vars(holder)
        try:
            setattr(holder, attribute, new)
        except (TypeError, AttributeError) as e:
            raise Missing(first_line(e)) from None
        if isinstance(holder, types.ModuleType):
            exchange(found, new)
            self.undo = lambda: exchange(new, found)
        else:
            self.undo = lambda: put_back(holder, attribute, new, found, had)

    def unwrap(self):
        undo, self.undo, self.is_bound = self.undo, None, False
        if undo is not None:
            undo()

    def own(self, *args, **kwargs):
        """The function itself: those of PyTorch that it calls are the program's own calls."""
        busy = pause_busy()
        try:
            return self.func(*args, **kwargs)
        finally:
            resume_busy(busy)

    def plan(self):
        """None: nothing is to be done."""
        answer = LINK.ask(event="name", name=self.name, base=self.name)
        if not answer["features"]:
            return None
        # One that is not of PyTorch is none of PyTorch's of that name.
        base = None if self.name.startswith("torch.") else self.name
        return Plan(self.func, self.name, answer["features"], answer["when"], answer["casts"], base)

    def changed(self, args, kwargs):
        quietly(refresh)
        plans = self.plans
        if not plans:
            quietly(lambda: plans.append(self.plan()))
        if not plans or plans[0] is None:
            return self.func(*args, **kwargs)
        return changed(plans[0], self.own, args, kwargs)


def put_back(holder, attribute, new, found, had):
    if vars(holder).get(attribute) is not new:
        return
    if had:
        setattr(holder, attribute, found)
    else:
        delattr(holder, attribute)


FUNCTIONS = {}  # name: Function
BINDING = threading.RLock()  # of whoever binds: the program calls what is bound already, which may want more bound


class Finder:
    """Among the finders of Python's import while a function is missing: tells when its module is there."""

    def __init__(self):
        self.names = set()
        self.watched = set()

    def watch(self, spec):
        if spec.name not in self.watched:
            self.watched.add(spec.name)
            at_end_of_import(spec, lambda: self.imported(spec.name))

    def imported(self, name):
        self.watched.discard(name)
        if not is_out():
            quietly(bind_all)

    def find_spec(self, name, path=None, target=None):
        if is_out() or name not in self.names:
            return None
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                if isinstance(spec, importlib.machinery.ModuleSpec):
                    self.watch(spec)
                return spec
        return None


FINDER = Finder()


def leave_imports():
    if FINDER in sys.meta_path:
        sys.meta_path.remove(FINDER)


def bind_all():
    with BINDING:
        missing = [] if is_out() else [f for f in list(FUNCTIONS.values()) if not f.is_bound]
        for f in missing:
            f.bind()
        FINDER.names = {f.name.rsplit(".", n)[0] for f in missing if not f.is_bound for n in range(1, f.name.count(".") + 1)}
        if not FINDER.names:
            leave_imports()
        elif FINDER not in sys.meta_path:
            sys.meta_path.insert(0, FINDER)


def forget_binding():
    """In a fork: whoever was binding is not here."""
    global BINDING
    BINDING = threading.RLock()


def bind_late():
    """A function may come without an import: those of the program's own file, __main__."""
    if FINDER.names:
        quietly(bind_all)


def start_functions():
    names = [n for n in LINK.settings["functions"] if not n.startswith("torch.Tensor.")]
    with BINDING:
        for name in [n for n in FUNCTIONS if n not in names]:
            FUNCTIONS.pop(name).unwrap()
        for name in names:
            FUNCTIONS.setdefault(name, Function(name)).forget()
        bind_all()


def end_functions():
    """After end(): from then on nothing is bound."""
    with BINDING:
        leave_imports()
        for f in list(FUNCTIONS.values()):
            f.unwrap()


def missing_functions():
    return [["missing", f.name, f.why, 1] for f in list(FUNCTIONS.values()) if not f.is_bound]
