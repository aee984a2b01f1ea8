"""One call of the program: why it is left alone, and what it raises."""
import torch

from ditrace_modes.names import IS_WRAPPED, PLAIN
from ditrace_modes.native import enter, lacks_memory, leave, program_call, tensors_in
from ditrace_runner.errors import first_line


class Busy:
    """What runs in it is ditrace's own."""

    def __enter__(self):
        self.was = enter()

    def __exit__(self, *_):
        leave(self.was)


class Raised(Exception):
    """What the program's own call has raised."""

    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


class Unchanged(Exception):
    """This call is left alone, for a reason."""


def why_failed(e, what="failed"):
    """None: it did not. torch.utils.checkpoint ends a function by this, in a hook of the last tensor that is saved again."""
    if type(e).__name__ == "_StopRecomputationError":
        return None
    return f"{what}: {first_line(e)}"


def quietly(f, *args):
    """What is told of a call that was made already: failing, it must not have the call made again."""
    try:
        with Busy():
            return f(*args)
    except Exception:
        return None


def is_capturing(device):
    """Are calls on it recorded as a graph, to be run later? torch.cuda and torch.npu say so."""
    capturing = getattr(getattr(torch, device, None), "is_current_stream_capturing", None)
    return capturing is not None and bool(capturing())


CAPTURED = "is being captured as a graph"


def check_readable(t):
    """Reading a tensor, which waits for its device, fails while a graph is captured there, and the program's capture with it."""
    if t.device.type != "cpu" and is_capturing(t.device.type):
        raise Unchanged(CAPTURED)


def unfit(tensors):
    """Why a call with these is left alone; None: it need not be."""
    if torch._C._get_tracing_state() is not None:
        return "is being traced"
    for t in tensors:
        if type(t) not in PLAIN:
            return f"has a {type(t).__name__}, which is a subclass of Tensor"
        if t.layout != torch.strided or t.is_quantized:
            return f"has a tensor of layout {str(t.layout)[6:]}" if not t.is_quantized else "has a quantized tensor"
        if t.device.type == "meta":
            return "has a tensor without numbers"
        if IS_WRAPPED is not None and IS_WRAPPED(t):
            return "is inside of vmap, grad or the like"
        if lacks_memory(t):
            return "has a tensor without memory"
        if is_capturing(t.device.type):
            return CAPTURED
    return None


def why_unfit(args, kwargs):
    try:
        return unfit(tensors_in(args, kwargs))
    except Exception as e:
        return why_failed(e, "cannot be looked at")


def own_call(call, args, kwargs):
    """The program's own call, which is not to be made again when it fails."""
    try:
        return program_call(call, args, kwargs)
    except Exception as e:
        raise Raised(e) from None
