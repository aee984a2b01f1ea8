# Putting the mode in and taking it out.
import _thread

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


def install():
    global LEVEL
    LINK.connect()
    LEVEL = Level(LINK.settings.get("level") == "aten")
    ready(LEVEL.push, LEVEL.pop, PLAIN, is_compiling, torch._C._to_dlpack, torch.uint8,
          torch.Tensor.is_conj, torch.Tensor.is_neg)
    start_casts()
    start_functions()
    start_budget()
    start_threads()
    if not AGAIN:
        os.register_at_fork(after_in_child=after_fork)
    atexit.register(at_exit)
    enter_thread()


def after_fork():
    """Of whichever of these modules is in use: Python forgets no function that it was told to call."""
    inside = sys.modules.get("_ditrace_inside")
    if inside is not None:
        inside.LINK.after_fork()


def at_exit():
    try:
        no_more_threads()
        flush()
    except Exception:
        pass


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


def is_in_backward():
    """The stack of modes is put back at its end to what it was before (ThreadLocalStateGuard, torch/csrc/autograd/engine.cpp)."""
    task = getattr(torch._C, "_current_graph_task_id", None)
    if task is not None:
        return task() != -1
    frame = sys._getframe()
    while frame is not None and frame.f_code not in BACKWARD:
        frame = frame.f_back
    return frame is not None


BACKWARD = torch.autograd.backward.__code__, torch.autograd.grad.__code__

# PyTorch 1.13 takes a mode off the stack in Python to ask it, and is not to be disturbed there.
ASKING = [m.__code__ for m in (
    getattr(getattr(functions, "_TorchFunctionStackMode", None), "__torch_function__", None),
    getattr(getattr(operators, "_TorchDispatchStackMode", None), "__torch_dispatch__", None)) if m]


def is_asking():
    frame = sys._getframe() if ASKING else None
    while frame is not None and frame.f_code not in ASKING:
        frame = frame.f_back
    return frame is not None


def take_off():
    return not is_asking() and LEVEL.take_off()


def is_in_again():
    """Has a ditrace that came later put the same mode in?"""
    level = getattr(sys.modules.get("_ditrace_inside"), "LEVEL", None)
    return level not in (None, LEVEL) and level.mode is LEVEL.mode


def leave_thread(*_):
    """The mode is asked and therefore not on the stack: it is taken off when this thread calls the next function."""
    left = [1000]

    def look(frame, event, arg):
        left[0] -= 1
        if is_in_again() or take_off() or not left[0]:
            sys.setprofile(None)

    if sys.getprofile() is None:
        sys.setprofile(look)


def leave_all():
    """Called when ditrace is gone or wants to go: nothing is changed from now on."""
    end_threads()
    end()
    quietly(end_functions)
    with LINK.lock:
        try:
            tell_totals()
        except Exception:  # it is gone
            pass
        LINK.talk.close()


def stop():
    """Called on the main thread after leave_all(): 1 when the mode is out there, 0 when that must wait, since it is
    being asked."""
    if is_inside() or is_asking() or is_tracing() or LEVEL.is_on() and not take_off():
        return 0
    atexit.unregister(at_exit)
    sys.modules.pop("_ditrace_inside", None)
    forget_runner()
    return 1
