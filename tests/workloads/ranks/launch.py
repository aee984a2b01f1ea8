"""Start a program on RANKS ranks, or two, as torchrun does: python3 launch.py PROGRAM [ARGUMENT...]"""

import os
import subprocess
import sys

RANKS = int(os.environ.get("RANKS", 2))

started = [
    subprocess.Popen(
        [sys.executable, *sys.argv[1:]],
        env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(RANKS)},
    )
    for r in range(RANKS)
]
sys.exit(max([p.wait() for p in started]))
