# Run in the program, on its main thread, while it imports PyTorch, after loader.py. SOCKET, AGAIN, keep and fill are there
# already, from the library (modes.c).
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


def keep_from_dynamo(code):
    """Where torch.compile runs a frame as it is, it still compiles those that it calls: not these, nor what they call."""
    dynamo = sys.modules.get("torch._C._dynamo.eval_frame")
    if hasattr(dynamo, "set_code_exec_strategy"):
        skip = dynamo._FrameAction.SKIP
        dynamo.set_code_exec_strategy(code, dynamo._FrameExecStrategy(skip, skip))
    elif hasattr(dynamo, "skip_code"):
        dynamo.skip_code(code)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            keep_from_dynamo(inner)


def make_native():
    """The module that has what the library gives."""
    native = types.ModuleType("ditrace_modes.native")
    native.__dict__.update(SOCKET=SOCKET, AGAIN=AGAIN, keep=keep, at_end_of_import=at_end_of_import,
                           forget_modules=EMBEDDED.forget)
    fill(native.__dict__)
    sys.modules[native.__name__] = native
    return native


def imported():
    if "torch" not in sys.modules:  # the import has failed
        return
    EMBEDDED.forget()  # those of a ditrace before
    EMBEDDED.compiled = keep_from_dynamo
    sys.meta_path.insert(0, EMBEDDED)
    try:
        native = make_native()
        was = native.enter()
        try:
            from ditrace_modes import install
        finally:
            native.leave(was)
        for name in ("enter_thread", "leave_all", "stop"):  # what the library calls
            globals()[name] = getattr(install, name)
        install.install()
    except Exception as e:  # whatever it is, the program goes on without
        keep(-1)
        EMBEDDED.forget()
        sys.stderr.write(f"ditrace: nothing is changed in process {os.getpid()}: {type(e).__name__}: {e}\n")
    finally:
        sys.meta_path.remove(EMBEDDED)


def begin():
    torch = sys.modules.get("torch")
    spec = getattr(torch, "__spec__", None)
    if getattr(spec, "_initializing", False):
        at_end_of_import(spec, imported)
    elif torch is not None:
        imported()


begin()
