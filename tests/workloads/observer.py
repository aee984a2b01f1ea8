"""PyTorch's own log of every operator: ExecutionTraceObserver (2.x), ExecutionGraphObserver (1.13)."""

import contextlib
import torch


def register(path):
    import torch.profiler as profiler

    if hasattr(profiler, "ExecutionTraceObserver"):
        observer = profiler.ExecutionTraceObserver()
    else:
        observer = profiler.ExecutionGraphObserver()
    observer.register_callback(path)
    return observer


@contextlib.contextmanager
def region(path=None):
    """The part of a program that is compared: two fills of known value mark its ends, and with a path
    PyTorch logs it there as JSON."""
    observer = register(path) if path else None
    if observer:
        observer.start()
    torch.full((3,), 12345.0)
    try:
        yield
    finally:
        torch.full((3,), 54321.0)
        if observer:
            observer.stop()
            observer.unregister_callback()
