"""The mode on every thread: each has a stack of modes of its own."""
import _thread
import functools
import sys
import threading

import torch

from ditrace_modes.level import LEVEL
from ditrace_modes.native import is_busy, is_inside, is_out

STARTS = [  # of threads, each of which has a stack of modes of its own: (where, name)
    (threading.Thread, "_bootstrap_inner"), (_thread, "start_new_thread"), (_thread, "start_new"), (_thread, "start_joinable_thread")]
THREAD = threading.local()
REPLACED = []  # (where, name, what was there, what is there now)


def start_of_thread(run):
    def _bootstrap_inner(self):
        enter_thread()
        run(self)

    return _bootstrap_inner


class Started:
    """What a thread is to run, with the mode on it."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        enter_thread()
        return self.function(*args, **kwargs)

    def __repr__(self):
        return repr(self.function)


def start_with_mode(start):
    @functools.wraps(start)
    def start_thread(*args, **kwargs):
        if args and callable(args[0]) and not is_out():
            args = (Started(args[0]), *args[1:])
        return start(*args, **kwargs)

    return start_thread


def start_threads():
    for where, name in STARTS:
        was = getattr(where, name, None)
        if was is not None:
            now = (start_of_thread if isinstance(where, type) else start_with_mode)(was)
            REPLACED.append((where, name, was, now))
            setattr(where, name, now)


def end_threads():
    while REPLACED:
        where, name, was, now = REPLACED.pop()
        if getattr(where, name) is now:
            setattr(where, name, was)


def enter_thread(*_):
    """Put the mode on this thread, once: where it then is not on the stack, somebody has taken it off for a while, and
    puts it back. False: it is not on."""
    if is_out():
        return False
    if not (getattr(THREAD, "entered", False) or is_busy() or is_inside() or is_tracing() or is_in_backward()):
        if not LEVEL.is_on():
            LEVEL.put_on()
        THREAD.entered = LEVEL.is_on()
        return THREAD.entered
    return True


def is_tracing():
    """torch.compile takes all modes off the stack for so long, and is not to find another there."""
    tracer = sys.modules.get("torch._dynamo.convert_frame")
    frame = sys._getframe() if tracer else None
    while frame is not None and frame.f_globals is not vars(tracer):
        frame = frame.f_back
    return frame is not None


BACKWARD = torch.autograd.backward.__code__, torch.autograd.grad.__code__


def is_in_backward():
    """The stack of modes is put back at its end to what it was before (ThreadLocalStateGuard, torch/csrc/autograd/engine.cpp)."""
    task = getattr(torch._C, "_current_graph_task_id", None)
    if task is not None:
        return task() != -1
    frame = sys._getframe()
    while frame is not None and frame.f_code not in BACKWARD:
        frame = frame.f_back
    return frame is not None
