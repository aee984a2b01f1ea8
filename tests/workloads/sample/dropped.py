"""When there is a file, runs and drops code whose line table is long, and ends: dropped.py FILE. Line 1500 of <long> takes a
processor for a time."""

import os
import sys
import time


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    spin(0.05)
lines = [f"n{i % 100} = {i}" for i in range(1, 4001)]
lines[1499] = "spin(0.2)"
exec(compile("\n".join(lines), "<long>", "exec"), {"spin": spin})
exec(compile("\n".join(lines[:1499]), "<other>", "exec"), {})
print("dropped", flush=True)
