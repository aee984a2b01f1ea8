# Putting the mode in and taking it out.
THREADS = {"run": None}


def start_of_thread(self):
    """threading.Thread._bootstrap_inner: each thread has a stack of modes of its own."""
    if not is_out():
        LEVEL.put_on()
    THREADS["run"](self)


def install():
    global LEVEL, WRITTEN_BY_SCHEMA
    LINK.connect()
    LEVEL = Level(LINK.settings.get("level") == "aten")
    WRITTEN_BY_SCHEMA = written_by_schema if LEVEL.is_aten else None
    ready(LEVEL.push, LEVEL.pop, PLAIN, is_compiling, torch._C._to_dlpack, torch.uint8)
    start_casts()
    start_functions()
    start_budget()
    THREADS["run"] = threading.Thread._bootstrap_inner
    threading.Thread._bootstrap_inner = start_of_thread
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
        flush()
    except Exception:
        pass


def enter_thread(*_):
    """Put the mode on this thread, unless it is there, or is being asked and therefore not there right now."""
    if not is_out() and not is_busy() and not is_inside() and not LEVEL.is_on():
        LEVEL.put_on()


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


def leave_thread(*_):
    """The mode is asked and therefore not on the stack: it is taken off when this thread calls the next function."""
    left = [1000]

    def look(frame, event, arg):
        left[0] -= 1
        if take_off() or not left[0]:
            sys.setprofile(None)

    if sys.getprofile() is None:
        sys.setprofile(look)


def leave_all():
    """Called when ditrace is gone or wants to go: nothing is changed from now on."""
    if THREADS["run"] is not None and threading.Thread._bootstrap_inner is start_of_thread:
        threading.Thread._bootstrap_inner = THREADS["run"]
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
    if is_inside() or is_asking() or LEVEL.is_on() and not take_off():
        return 0
    atexit.unregister(at_exit)
    sys.modules.pop("_ditrace_inside", None)
    return 1
