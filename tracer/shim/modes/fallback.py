"""Functions computed on the CPU, their results brought back to the device (modes_fallback.c): what it tells."""
from ditrace_modes.kernels import is_tried, lacks_kernel, wants_gradient, why_lacking
from ditrace_modes.names import CPU, MAKE, VIEWS
from ditrace_modes.native import call_number
from ditrace_modes.values import Seen, described_in, rows_of, tell_tables

NO_HALF = {}  # (function, dtype) that the CPU has no kernel for
FALLBACKS_IS_NEW = Seen().is_new


def has_no_half(e):
    text = str(e)
    return lacks_kernel(text) and ("Half" in text or "BFloat16" in text)


def lacks_half_backward(plan, args, kwargs):
    """Of a function that computes in half precision, on the CPU."""
    if not wants_gradient(args, kwargs):
        return False
    return has_no_half(is_tried(plan, args, kwargs) and why_lacking(plan, args, kwargs, CPU, {}))


def rows_of_fallback(plan, args, kwargs, cpu_args, cpu_kwargs):
    """Before the call's results are in the arguments."""
    return rows_of(f"{plan.name} input(device)", args, kwargs) + rows_of(f"{plan.name} input(cpu)", cpu_args, cpu_kwargs)


def tell_fallback(plan, at, rows, given, result):
    rows = rows + rows_of(f"{plan.name} output(device)", given) + rows_of(f"{plan.name} output(cpu)", result)
    tell_tables(plan.name, call_number(), at, described_in(rows))


NO_FALLBACK = [(MAKE, "makes a tensor of none"), (VIEWS, "is a view"), (
    set("_to_copy _copy_from _copy_from_and_resize".split()), "moves a tensor")]
