"""Start a program on RANKS ranks, or two, as torchrun does: python3 launch.py PROGRAM [ARGUMENT...]
Where srun has started it, with its own rank, it has PyTorch loaded, too, as torchrun has."""

import os
import subprocess
import sys

if "SLURM_PROCID" in os.environ:
    import torch  # noqa: F401

RANKS = int(os.environ.get("RANKS", 2))

started = [
    subprocess.Popen(
        [sys.executable, *sys.argv[1:]],
        env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(RANKS), "TORCHELASTIC_RESTART_COUNT": "0"},
    )
    for r in range(RANKS)
]
sys.exit(max([p.wait() for p in started]))
