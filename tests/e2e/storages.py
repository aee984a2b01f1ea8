#!/usr/bin/env python3
"""The float32 numbers in each storage of a file of torch.save, which is a zip; without PyTorch, which takes seconds to
start: storages.py FILE."""

import struct
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as z:
    names = sorted((n for n in z.namelist() if "/data/" in n), key=lambda n: int(n.rsplit("/", 1)[1]))
    print("; ".join(" ".join(f"{x:g}" for x, in struct.iter_unpack("<f", z.read(n))) for n in names))
