# Runs captured op calls again, and computes what they are judged against. The files of this folder are one
# program, in the order of their names; it is started by ditrace:
#   python runner.py REQUESTS REPLIES ARENA      (three inherited file descriptors)
# Requests and replies are lines of JSON; tensors lie in the arena, a memory file, and a reply says
# where. After a reply that has tensors the next line of the requests must be "go": the arena may be
# used again then. No word is written to standard output.
import json
import mmap
import os
import pickle
import sys
import time
import zipfile

if __name__ == "__main__":
    # The folder of this file, which is none, and the current one, which is not to be imported from.
    sys.path[:] = [p for p in sys.path if p not in ("", "/", "/proc/self/fd")]

import torch

ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53,
            torch.complex64: 2.0**-24, torch.complex128: 2.0**-53}
SPACING = {}  # of dtypes that cannot be computed with
for _name, _bits in (("float8_e5m2", 3), ("float8_e4m3fn", 4), ("float8_e5m2fnuz", 3), ("float8_e4m3fnuz", 4)):
    if hasattr(torch, _name):
        SPACING[getattr(torch, _name)] = 2.0**-_bits
ROUNDOFF.update(SPACING)
PROBES = 4  # times that the inputs are moved
MANY = 6  # inputs of one element from which on the op is taken for a sum


class Refused(Exception):
    """This call is not run or judged, for a reason that is no fault."""


class Skipped(Refused):
    """This call has nothing that could be compared."""


class Damaged(Exception):
    """A file that cannot be read."""
