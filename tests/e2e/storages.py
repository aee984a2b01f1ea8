#!/usr/bin/env python3
"""The float32 numbers in each storage of a file of torch.save, which is a zip file. Works without PyTorch, which takes
seconds to import: storages.py FILE"""

import struct
import sys
import zipfile


def storages(path):
    """A list of numbers for each storage, in order."""
    with zipfile.ZipFile(path) as z:
        names = sorted((n for n in z.namelist() if "/data/" in n), key=lambda n: int(n.rsplit("/", 1)[1]))
        return [[x for x, in struct.iter_unpack("<f", z.read(n))] for n in names]


if __name__ == "__main__":
    print("; ".join(" ".join(f"{x:g}" for x in s) for s in storages(sys.argv[1])))
