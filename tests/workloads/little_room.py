"""fill(LEFT): reserve all addresses from which a jump reaches the library, but for LEFT bytes in each gap, and, if told so, for
those below the stack."""

import ctypes

REACH = 1 << 31
PROT_NONE, PRIVATE_ANONYMOUS_NORESERVE, FIXED_NOREPLACE = 0, 0x4022, 0x100000

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def mappings():
    with open("/proc/self/maps") as f:
        for line in f:
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            yield begin, end, line


def gaps(left, library, below_stack):
    rows = list(mappings())
    of = [r for r in rows if library in r[2]]
    low, high = of[-1][1] - REACH, of[0][0] + REACH
    for (_, begin, _), (end, _, line) in zip(rows, rows[1:]):
        begin, end = max(begin, low), min(end, high) - left
        if begin < end and (below_stack or "[stack]" not in line):
            yield begin, end


def fill(left, library="libtorch_cpu", below_stack=True):
    for _ in range(100):  # a gap cannot be reserved as a whole if malloc has used a part of it meanwhile
        wide = list(gaps(left, library, below_stack))
        for begin, end in wide:
            libc.mmap(begin, end - begin, PROT_NONE, PRIVATE_ANONYMOUS_NORESERVE | FIXED_NOREPLACE, -1, 0)
        if not wide:
            return
    raise SystemExit(f"gaps stay: {wide}")
