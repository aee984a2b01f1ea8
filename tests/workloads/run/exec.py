#!/usr/bin/env python3
"""Becomes another program (exec), starts one (a shell that starts a Python), and ends."""

import os
import subprocess
import sys

CODE = "import torch; torch.full((2,), {}); print('ran', {})"

if len(sys.argv) > 1:
    subprocess.run(["/bin/sh", "-c", 'true; "$0" -c "$1"', sys.executable, CODE.format(5, 5)], check=True)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", CODE.format(6, 6)])
os.execv(sys.executable, [sys.executable, __file__, "again"])
