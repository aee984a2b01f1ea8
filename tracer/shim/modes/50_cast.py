# Functions computed in another dtype, their results cast back.

CASTINGS = Seen()


class Casting(Stand):
    """The arguments of one call in the other dtype."""

    def __init__(self, dtypes):
        super().__init__()
        self.dtypes = dtypes

    def made(self, x):
        return x.to(self.dtypes[x.dtype]) if x.dtype in self.dtypes else None


def promoted(tensors):
    """The dtype of a result of these: those with dimensions count before those without."""
    floats = [t for t in tensors if t.dtype.is_floating_point]
    found = None
    for t in [t for t in floats if t.dim()] or floats:
        found = t.dtype if found is None else torch.promote_types(found, t.dtype)
    return found


def cast(plan, call, args, kwargs, at):
    tensors = tensors_in(args, kwargs)
    if plan.base in VIEWS or plan.base in CASTS:
        raise Unchanged("is a view" if plan.base in VIEWS else "is a cast")
    if plan.base in MAKE:
        raise Unchanged("makes a tensor")
    if any(isinstance(x, torch.dtype) for x in each((args, kwargs))):
        raise Unchanged("is told a dtype")
    dtypes = dtypes_of(plan.casts["casts"]) if plan.casts else DTYPES
    casting = Casting(dtypes)
    new_args, new_kwargs = rebuilt(tuple(args), casting.of), rebuilt(dict(kwargs), casting.of)
    if not casting.originals:
        raise Unchanged("has no tensor of such a dtype")
    result = call(*new_args, **new_kwargs)
    casting.check(result)
    before, after = promoted(tensors), promoted(tensors_in(new_args, new_kwargs))

    def back(x):
        if not isinstance(x, torch.Tensor):
            return x
        original = casting.original_of(x)
        if original is not None:
            return original
        return x.to(before) if x.dtype == after else x

    given = rebuilt(result, back)
    write_back(casting.written(plan, args, kwargs))
    quietly(count, ("cast", plan.name, None))
    quietly(tell_casts, plan, casting, args, kwargs, at, result, given)
    return given


def tell_casts(plan, casting, args, kwargs, at, result, given):
    if not CASTINGS.is_new(plan.name, at, args, kwargs):
        return
    actions = [("input" + p, x.dtype, casting.dtypes[x.dtype]) for p, x in [*walk(tuple(args)), *walk(kwargs)]
               if isinstance(x, torch.Tensor) and x.dtype in casting.dtypes]
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
