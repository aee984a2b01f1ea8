"""Start a program on RANKS ranks, or two, as torchrun does: python3 launch.py PROGRAM [ARGUMENT...]. FIRST and WORLD_SIZE: the
first of them and of how many, where others are started elsewhere. Where srun has started it, with its own rank, it has PyTorch
loaded, too, as torchrun has."""

import os
import subprocess
import sys

if "SLURM_PROCID" in os.environ:
    import torch  # noqa: F401

RANKS = int(os.environ.get("RANKS", 2))
FIRST = int(os.environ.get("FIRST", 0))
WORLD_SIZE = os.environ.get("WORLD_SIZE", str(RANKS))


def variables(place):
    """Those of the rank at that place."""
    return {"RANK": str(FIRST + place), "LOCAL_RANK": str(place), "WORLD_SIZE": WORLD_SIZE, "TORCHELASTIC_RESTART_COUNT": "0"}


started = [subprocess.Popen([sys.executable, *sys.argv[1:]], env={**os.environ, **variables(r)}) for r in range(RANKS)]
sys.exit(max([p.wait() for p in started]))
