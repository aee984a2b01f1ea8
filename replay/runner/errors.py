"""Why a call has no verdict."""


class Refused(Exception):
    """This call is not run or judged, for a reason that is no fault."""


class Skipped(Refused):
    """This call has nothing that could be compared."""


class Damaged(Exception):
    """A file that cannot be read."""


def first_line(e):
    lines = [x for x in str(e).splitlines() if x.strip()]
    return f"{type(e).__name__}: {lines[0]}" if lines else type(e).__name__
