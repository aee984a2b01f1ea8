"""Imports PyTorch, which stays in the midst of it until there is a file, and calls an op: slow_import.py FILE"""

import os
import sys
import time


class Slow:
    """A finder that finds nothing."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch.distributions":
            print("pid", os.getpid(), flush=True)
            while not os.path.exists(sys.argv[1]):
                time.sleep(0.02)


sys.meta_path.insert(0, Slow)
import torch  # noqa: E402

torch.add(torch.ones(2), 1)
