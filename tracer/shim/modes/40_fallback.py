# Functions computed on the CPU, their results brought back to the device (modes_copies.c): what it tells.

NO_HALF = {}  # (function, dtype) that the CPU has no kernel for
FALLBACKS_IS_NEW = Seen().is_new


def has_no_half(e):
    text = str(e)
    return "not implemented for" in text and ("Half" in text or "BFloat16" in text)


def rows_of_fallback(plan, args, kwargs, cpu_args, cpu_kwargs):
    """Before the call's results are in the arguments."""
    return rows_of(f"{plan.name} input(device)", args, kwargs) + rows_of(f"{plan.name} input(cpu)", cpu_args, cpu_kwargs)


def tell_fallback(plan, at, rows, given, result):
    tell_table(plan.name, at, rows + rows_of(f"{plan.name} output(device)", given) + rows_of(
        f"{plan.name} output(cpu)", result))


FEATURES["fallback"] = fallback
REFUSED["fallback"] = [(MAKE, "makes a tensor of none"), (VIEWS, "is a view")]
