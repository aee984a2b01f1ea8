#!/usr/bin/env python3
"""in_turn.py "PROGRAM ARGUMENT..."...: programs of this folder one after the other in one process, each as __main__,
with a mark after each, so that what they do can be told apart (../e2e/split_at_marks.py). The first may be one that
imports torch late."""

import os
import runpy
import sys

MARK = 98765.0
here = os.path.dirname(os.path.abspath(__file__))
for program in sys.argv[1:]:
    sys.argv = program.split()
    try:
        runpy.run_path(os.path.join(here, sys.argv[0]), run_name="__main__")
    except SystemExit as e:
        if e.code:
            raise
    import torch

    torch.full((4,), MARK)
    sys.stdout.flush()
