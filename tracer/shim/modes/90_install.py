# Putting the mode in and taking it out.
MODE = made(Changed)
THREADS = {"run": None}


def stack():
    n = torch._C._len_torch_function_stack()
    return [torch._C._get_function_stack_at(i) for i in range(n)]


def start_of_thread(self):
    """threading.Thread._bootstrap_inner: each thread has a stack of modes of its own."""
    if not is_out():
        _push_mode(MODE)
    THREADS["run"](self)


def install():
    LINK.connect()
    if not LINK.settings["features"]:
        end()
        return
    ready(torch._C._push_on_torch_function_stack, torch._C._pop_torch_function_stack, PLAIN, is_compiling, changed)
    start_casts()
    THREADS["run"] = threading.Thread._bootstrap_inner
    threading.Thread._bootstrap_inner = start_of_thread
    os.register_at_fork(after_in_child=LINK.after_fork)
    atexit.register(at_exit)
    _push_mode(MODE)


def at_exit():
    try:
        flush()
    except Exception:
        pass


def stop():
    """Called on the main thread when ditrace is gone: 1 when the mode is out, 0 when that must wait, since a mode of
    the program's own lies on it or it is at work. It changes nothing from the first call on."""
    end()
    if THREADS["run"] is not None and threading.Thread._bootstrap_inner is start_of_thread:
        threading.Thread._bootstrap_inner = THREADS["run"]
    if is_inside():
        return 0
    modes = stack()
    if not modes or modes[-1] is not MODE:  # a mode that is being asked is not on the stack
        return 0
    _pop_mode()
    return 1
