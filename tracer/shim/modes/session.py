"""What this process and ditrace tell each other beside single calls."""
import sys

from ditrace_modes.cast import start_casts
from ditrace_modes.compare import start_budget
from ditrace_modes.link import LINK
from ditrace_modes.native import counts, forget, is_out, spent, threads
from ditrace_modes.saved import Saved
from ditrace_modes.verdicts import Judged, tell_silent
from ditrace_modes.wrapped import forget_binding, missing_functions, start_functions


def flush(*_):
    """Tell what was done."""
    if not is_out():
        tell_totals()


def tell_totals():
    with LINK.lock:
        tell_silent()
        LINK.say(event="totals", totals=[[*key, n] for key, n in counts().copy().items()] + missing_functions(),
                 spent=spent(),
                 unseen=[[what, n] for what, n in unseen() if n],
                 threads=[[what, n] for what, n in zip(THREAD_KINDS, threads()) if n])


THREAD_KINDS = "entered", "without Python", "under modes of PyTorch alone"


def unseen():
    """How many there are of what computes without calling any function that a mode is asked for."""
    jit, dynamo = sys.modules.get("torch.jit._state"), sys.modules.get("torch._dynamo.utils")
    try:
        yield "scripted function", len(jit._python_cu.get_functions()) if jit else 0
        yield "compiled graph", dynamo.counters["aot_autograd"]["total"] if dynamo else 0
    except Exception:  # of a PyTorch that has others
        return


def look_again(*_):
    """ditrace wants other things than before."""
    tell_silent()
    LINK.settle("settings")
    start_features()


def start_features():
    start_casts()
    start_functions()
    start_budget()


NAMED = ("torch", "torch.functional", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")


def tell_names():
    """Which functions can be chosen by name: ditrace ctl refuses others of these modules."""
    found = {m: [n for n, f in list(vars(sys.modules[m]).items()) if callable(f)] for m in NAMED if m in sys.modules}
    LINK.say(event="names", names={**found, "torch.Tensor": dir(sys.modules["torch"].Tensor)})


def after_fork():
    forget()
    Judged.silent = {}
    Saved.done = {}
    forget_binding()
    LINK.after_fork()
