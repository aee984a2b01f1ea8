# Run in the program, on its main thread, while it imports PyTorch, after loader.py of the runner. SOURCE, SOCKET, AGAIN, keep
# and fill are there already.
import os
import sys
import types


def at_end_of_import(spec, then):
    """Call then() when the import is done, before any code of the program can use the module: the import system
    says so by setting spec._initializing to False (importlib/_bootstrap.py, _load_unlocked)."""
    kind = type(spec)

    class Importing(kind):
        @property
        def _initializing(self):
            return self.__dict__.get("_initializing", False)

        @_initializing.setter
        def _initializing(self, value):
            self.__dict__["_initializing"] = value
            if not value:
                self.__class__ = kind
                then()

    spec.__class__ = Importing


def imported():
    if "torch" not in sys.modules:  # the import has failed
        return
    try:
        EMBEDDED.forget()  # noqa: F821 those of a ditrace before
        sys.meta_path.insert(0, EMBEDDED)  # noqa: F821 the same
        inside = types.ModuleType("_ditrace_inside")  # a module that is found, or torch.compile does not take it
        inside.__dict__.update(SOCKET=SOCKET, AGAIN=AGAIN, keep=keep, at_end_of_import=at_end_of_import,  # noqa: F821 what the library has put here
                               forget_runner=EMBEDDED.forget)  # noqa: F821 the same
        fill(inside.__dict__)  # noqa: F821 the same
        exec(compile(SOURCE, "ditrace/modes.py", "exec"), inside.__dict__)  # noqa: F821 the same
        sys.modules[inside.__name__] = inside
        for name in ("enter_thread", "leave_all", "stop"):  # what the library calls
            globals()[name] = getattr(inside, name)
        inside.install()
    except Exception as e:  # whatever it is, the program goes on without
        keep(-1)  # noqa: F821 the same
        EMBEDDED.forget()  # noqa: F821 the same
        sys.modules.pop("_ditrace_inside", None)
        sys.stderr.write(f"ditrace: nothing is changed in process {os.getpid()}: {type(e).__name__}: {e}\n")
    finally:
        if EMBEDDED in sys.meta_path:  # noqa: F821 the same
            sys.meta_path.remove(EMBEDDED)  # noqa: F821 the same


def begin():
    torch = sys.modules.get("torch")
    spec = getattr(torch, "__spec__", None)
    if getattr(spec, "_initializing", False):
        at_end_of_import(spec, imported)
    elif torch is not None:
        imported()


begin()
