#!/usr/bin/env python3
"""at_word.py FILE PROGRAM ARGUMENT...: becomes the program as soon as there is such a file. Until then it calls relu, so
that whoever has come to look at it is seen to see something."""

import os
import runpy
import sys
import time

import torch

word, *sys.argv = sys.argv[1:]
x = torch.ones(1, dtype=torch.int16)
while not os.path.exists(word):
    x.relu()
    time.sleep(0.01)
runpy.run_path(sys.argv[0], run_name="__main__")
