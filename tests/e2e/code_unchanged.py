#!/usr/bin/env python3
"""code_unchanged.py PID: the code of the process's libtorch is that of the file, so no probe is in it."""

import sys

CHUNK = 1 << 22


def mappings(pid):
    with open(f"/proc/{pid}/maps") as f:
        for line in f:
            fields = line.split(None, 5)
            if len(fields) == 6 and "x" in fields[1] and "libtorch" in fields[5]:
                begin, end = (int(x, 16) for x in fields[0].split("-"))
                yield begin, end, int(fields[2], 16), fields[5].strip()


def differs(pid, begin, end, offset, path):
    with open(f"/proc/{pid}/mem", "rb", 0) as memory, open(path, "rb") as file:
        memory.seek(begin)
        file.seek(offset)
        for at in range(begin, end, CHUNK):
            size = min(CHUNK, end - at)
            seen, wanted = memory.read(size), file.read(size)
            if seen[: len(wanted)] != wanted:
                return at
    return None


found = list(mappings(sys.argv[1]))
bad = [(hex(at), m[3]) for m in found if (at := differs(sys.argv[1], *m))]
print(f"{len(found)} mappings compared", bad)
sys.exit(not found or bool(bad))
