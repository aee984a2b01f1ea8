"""How much memory this process may take: no other shall be killed for what a call asks for."""
import os
import re
import resource

SPARED = 16  # one part of so many of what is free stays so
GROUPS = "/sys/fs/cgroup"


def number(path, name=""):
    """The number after `name` in a file of the kernel's, in bytes if it is in kB; None: there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            found = re.search(rf"^{name}:?\s*(\d+)( kB)?$", f.read(), re.M)
    except OSError:
        return None
    return found and int(found[1]) * (1024 if found[2] else 1)


def free_in_groups():
    """What each of its control groups (cgroup v2) leaves it; files that it keeps in memory can go."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as f:
            group = next(line[3:].rstrip("\n") for line in f if line.startswith("0::"))
    except (OSError, StopIteration):
        return
    while True:
        path = GROUPS + group
        most, taken = number(f"{path}/memory.max"), number(f"{path}/memory.current")
        if most is not None and taken is not None:
            yield max(0, most - taken + (number(f"{path}/memory.stat", "inactive_file") or 0))
        if group in ("", "/"):
            return
        group = os.path.dirname(group)


def room():
    """Bytes that this process may still take; None: no limit is known."""
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if most == resource.RLIM_INFINITY else max(0, most - (number("/proc/self/status", "VmData") or 0))


class Limit:
    """Of this process to its part of what is free now for so many."""

    def __init__(self, processes):
        self.given, self.hard = resource.getrlimit(resource.RLIMIT_DATA)
        free = [n for n in (number("/proc/meminfo", "MemAvailable"), *free_in_groups()) if n is not None]
        taken = number("/proc/self/status", "VmData")
        self.most = self.given
        if free and taken is not None:
            most = taken + min(free) // processes * (SPARED - 1) // SPARED
            self.most = most if self.given == resource.RLIM_INFINITY else min(most, self.given)

    def set(self, holds):
        resource.setrlimit(resource.RLIMIT_DATA, (self.most if holds else self.given, self.hard))


def is_short(e):
    """Whether it tells of too little memory, on the CPU. PyTorch's text is that of c10/core/impl/alloc_cpu.cpp."""
    return isinstance(e, MemoryError) or isinstance(e, RuntimeError) and re.search(
        "DefaultCPUAllocator: (can't allocate|not enough) memory|std::bad_alloc", str(e)) is not None


def asked(e):
    found = re.search(r"tried to allocate (\d+) bytes", str(e))
    return int(found[1]) if found else None


def shortage(size, left, processes):
    """The reason why a call that wanted `size` bytes (None: not known) is not run."""
    wanted = f"{in_units(size)} more memory" if size else "more memory"
    have = f", and {in_units(left)} are left for it" if left is not None else " than there is"
    return f"it would take {wanted}{have}; " + ("--jobs 1 leaves a call more" if processes > 1 else "run it where there is more")


def in_units(size):
    unit = 0
    while size >= 1024 and unit < 4:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {' KMGT'[unit]}iB" if unit else f"{size} B"
