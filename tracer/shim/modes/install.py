"""Putting the mode in and taking it out."""
import atexit
import os
import sys

import torch.overrides as functions
import torch.utils._python_dispatch as operators

from ditrace_modes.calls import quietly
from ditrace_modes.level import LEVEL
from ditrace_modes.link import LINK
from ditrace_modes.native import AGAIN, end, forget_modules, is_inside, is_out, look_up, no_more_threads, ready
from ditrace_modes.questions import end_questions, start_questions
from ditrace_modes.session import flush, start_features, tell_names, tell_totals
from ditrace_modes.threads import end_threads, enter_thread, is_tracing, start_threads
from ditrace_modes.wrapped import end_functions

BEGINNING = [True]  # until start() is over: a ditrace that comes later may not begin before


def install():
    LINK.connect()
    try:
        start()
    except BaseException:
        if is_out():  # ditrace has left meanwhile
            return
        end()
        raise
    finally:
        if is_out():  # leave_all() may have been called before there was all to undo
            change_nothing()
        BEGINNING.clear()


def start():
    LEVEL.choose(LINK.settings.get("level") == "aten")
    look_up(LEVEL.push, LEVEL.pop)
    start_features()
    LEVEL.make()
    ready()
    tell_names()
    start_questions()
    start_threads()
    if not AGAIN:
        os.register_at_fork(after_in_child=after_fork)
    atexit.register(at_exit)
    enter_thread()


def after_fork():
    """Of whichever of these modules is in use: Python forgets no function that it was told to call."""
    session = sys.modules.get("ditrace_modes.session")
    if session is not None:
        sys.modules["ditrace_modes.install"].BEGINNING.clear()  # the thread that begins is the parent's
        session.after_fork()


def at_exit():
    try:
        no_more_threads()
        flush()
    except Exception:
        pass


# These, two of them of PyTorch 1.13, take a mode off the stack in Python to ask it, and are not to be disturbed there.
ASKING = [f.__code__ for f in (
    functions.handle_torch_function,
    getattr(getattr(functions, "_TorchFunctionStackMode", None), "__torch_function__", None),
    getattr(getattr(operators, "_TorchDispatchStackMode", None), "__torch_dispatch__", None)) if f]


def is_asking(frame):
    """Is a mode being asked, or about to be, by a thread whose innermost frame, but for ours, is this one? A function that can be
    overridden first finds that there is a mode (has_torch_function), then lets handle_torch_function ask it."""
    if frame is not None and "handle_torch_function" in frame.f_code.co_names:
        return True
    while frame is not None and frame.f_code not in ASKING:
        frame = frame.f_back
    return frame is not None


def is_in_again():
    """Has a ditrace that came later put the same mode in?"""
    level = getattr(sys.modules.get("ditrace_modes.level"), "LEVEL", None)
    return level not in (None, LEVEL) and level.mode is LEVEL.mode


def leave_thread(*_):
    """The mode is asked and therefore not on the stack: it is taken off when this thread calls the next function."""
    left = [1000]

    def look(frame, event, arg):
        left[0] -= 1
        busy = is_asking(frame) or (event == "return" and is_asking(frame.f_back))
        if is_in_again() or not left[0] or (not busy and LEVEL.take_off()):
            sys.setprofile(None)

    if sys.getprofile() is None:
        sys.setprofile(look)


def change_nothing():
    """From now on."""
    end()
    end_threads()
    quietly(end_functions)  # which may have wrapped what questions put there
    end_questions()


def leave_all():
    """Called when ditrace is gone or wants to go."""
    change_nothing()
    with LINK.lock:
        try:
            tell_totals()
        except Exception:  # it is gone
            pass
        LINK.talk.close()


def stop():
    """Called on the main thread after leave_all(): 1 when the mode is out there, 0 when that must wait, since it is
    being asked, or still begins."""
    if BEGINNING or is_inside() or is_asking(sys._getframe().f_back) or is_tracing() or LEVEL.is_on() and not LEVEL.take_off():
        return 0
    atexit.unregister(at_exit)
    forget_modules()
    return 1
