"""What correct kernels may give otherwise. LAPACK does not say which of several right results a factorisation has, and the
libraries of other devices (cuSOLVER, MAGMA) choose others: such a result is right where it is about the reference's, and not
judged where it is not."""
import torch

SIGNS = "other signs or phases are as right"
VECTORS = f"{SIGNS}, and rotations among vectors of equal values"
PIVOTS = "which rows are pivots is up to the kernel where several are about as large"
DRIVER = "depends on the driver, of which devices have different ones"
# operator, with or without linalg_: (places of such results, why)
FREE = {"svd": ({0, 2}, VECTORS), "eigh": ({1}, VECTORS), "symeig": ({1}, VECTORS), "eig": ({1}, VECTORS),
        "qr": ({0, 1}, SIGNS), "geqrf": ({0, 1}, SIGNS),
        "lu": ({0, 1, 2}, PIVOTS),
        **dict.fromkeys("lu_factor lu_factor_ex lu_with_info ldl_factor ldl_factor_ex".split(), ({0, 1}, PIVOTS)),
        "_linalg_det": ({1, 2}, PIVOTS), "_linalg_slogdet": ({2, 3}, PIVOTS), "_linalg_solve_ex": ({1, 2}, PIVOTS),
        "matrix_rank": ({0}, "what is about as small as rounding is zero to one kernel, and not to another")}
IN_ANY_ORDER = set("eig eigvals".split())
ORDER = "eigenvalues come in any order"
MOST_STEPS = 1 << 28


def short(base):
    """"svd" of linalg_svd and _linalg_svd."""
    name = base.lstrip("_")
    return name[len("linalg_"):] if name.startswith("linalg_") else name


def lacks_rank(capture):
    """Is the matrix of a least-squares problem without full rank, so that there are many solutions?"""
    a = capture.tensors[0].detach()
    if not bool(torch.isfinite(a).all()):
        return True
    values = torch.linalg.svdvals(a.to(torch.complex128 if a.is_complex() else torch.float64))
    return values.numel() > 0 and bool((values.amin(-1) <= max(a.shape[-2:]) * torch.finfo(a.dtype).eps * values.amax(-1)).any())


def is_unsorted(capture):
    named, places = capture.kwargs.get("sorted"), capture.args[1:2]
    return named is False or named is None and places == (False,)


def free_results(capture):
    """(places of results that a kernel may choose, why)"""
    name = short(capture.base)
    if name == "lstsq":
        return ({0, 1}, "a matrix without full rank has many solutions") if lacks_rank(capture) else ((), "")
    if name in ("unique", "unique2") and is_unsorted(capture):
        return {0, 1, 2}, "not sorted"
    return FREE.get(capture.base) or FREE.get(name, ((), ""))


def why_free(capture, place):
    """Why a kernel may give another result at that place; None: it may not."""
    if short(capture.base) == "lstsq" and place in (2, 3):
        return DRIVER
    places, why = free_results(capture)
    return why if place in places else None


def why_free_gradients(capture, given):
    """The same of the gradients that come from those given for the results."""
    places, why = free_results(capture)
    if short(capture.base) in IN_ANY_ORDER:
        places, why = {0, 1}, ORDER
    of = [g for i, g in enumerate(given) if i in places and isinstance(g, torch.Tensor)]
    return f"depends on a choice of the kernel: {why}" if any(bool(g.detach().any()) for g in of) else None


def are_in_any_order(capture, place, values):
    """Are these eigenvalues, and few enough to be put in order?"""
    return place == 0 and short(capture.base) in IN_ANY_ORDER and values.numel() * values.shape[-1]**2 <= MOST_STEPS


def in_order_of(values, reference):
    """Each row of eigenvalues in the order of those in the reference that they are nearest to."""
    n = reference.shape[-1]
    far = (values.to(reference.dtype).unsqueeze(-2) - reference.unsqueeze(-1)).abs().reshape(-1, n, n)
    if not bool(torch.isfinite(far).all()):
        return values
    rows, order = torch.arange(len(far)), torch.zeros(len(far), n, dtype=torch.long)
    for _ in range(n):
        nearest = far.flatten(1).argmin(1)
        of, at = nearest.div(n, rounding_mode="floor"), nearest % n
        order[rows, of] = at
        far[rows, of] = far[rows, :, at] = float("inf")
    return values.reshape(-1, n).gather(1, order).reshape(values.shape)
