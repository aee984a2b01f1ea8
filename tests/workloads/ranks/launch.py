"""Start a program on RANKS ranks, or two, as torchrun does: python3 launch.py PROGRAM [ARGUMENT...]. FIRST and WORLD_SIZE: the first
of them and of how many, where others are started elsewhere."""

import os
import subprocess
import sys

RANKS = int(os.environ.get("RANKS", 2))
FIRST = int(os.environ.get("FIRST", 0))
WORLD_SIZE = os.environ.get("WORLD_SIZE", str(RANKS))

started = [
    subprocess.Popen(
        [sys.executable, *sys.argv[1:]],
        env={**os.environ, "RANK": str(FIRST + r), "LOCAL_RANK": str(r), "WORLD_SIZE": WORLD_SIZE},
    )
    for r in range(RANKS)
]
sys.exit(max([p.wait() for p in started]))
