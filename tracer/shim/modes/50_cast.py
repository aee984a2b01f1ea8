# Functions computed in another dtype, their results cast back (modes_copies.c).

CASTINGS_IS_NEW = Seen().is_new


def promoted(args, kwargs):
    """The dtype of a result of these: those with dimensions count before those without."""
    floats = [t for t in tensors_in(args, kwargs) if t.dtype.is_floating_point]
    found = None
    for t in [t for t in floats if t.dim()] or floats:
        found = t.dtype if found is None else torch.promote_types(found, t.dtype)
    return found


def tell_casts(plan, at, called, given, result):
    dtypes, args, kwargs = called
    actions = [("input" + p, x.dtype, dtypes[x.dtype]) for p, x in [*walk(tuple(args)), *walk(kwargs)]
               if isinstance(x, torch.Tensor) and x.dtype in dtypes]
    actions += [("output" + p, x.dtype, y.dtype) for (p, x), (_, y) in zip(walk((result,)), walk((given,)))
                if isinstance(x, torch.Tensor) and x.dtype != y.dtype]
    text = plan.casts["text"] if plan.casts else LINK.settings["cast_text"]
    tell_rows(plan.name, at, ["name", "target", "action", "config"],
              [[plan.name, target, f"{a} -> {b}", text] for target, a, b in actions])


DTYPES = {}


def dtypes_of(casts):
    return {getattr(torch, a): getattr(torch, b) for a, b in casts.items() if hasattr(torch, a) and hasattr(torch, b)}


def start_casts():
    DTYPES.clear()
    DTYPES.update(dtypes_of(LINK.settings["casts"] or {}))


FEATURES["cast"] = cast
REFUSED["cast"] = [(MAKE, "makes a tensor"), (CASTS, "is a cast"), (VIEWS, "is a view")]
