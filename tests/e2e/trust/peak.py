"""Runs a command, and says how much memory the largest of its processes took: peak.py FILE COMMAND... The MiB go into FILE."""

import resource
import subprocess
import sys

status = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w", encoding="utf-8") as f:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=f)
sys.exit(status)
