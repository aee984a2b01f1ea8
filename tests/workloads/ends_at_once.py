"""Calls an operator of its own while the tracer, its parent, has no time for it, and ends at once."""

import os
import subprocess
import sys

import customops

tracer = os.getppid()
customops.ops.none()
here = os.path.dirname(os.path.abspath(__file__))
busy = subprocess.Popen([sys.executable, f"{here}/../e2e/run/stops_thread.py", str(tracer)], stdout=subprocess.PIPE)
busy.stdout.readline()
subprocess.Popen(["sh", "-c", f"sleep 0.3; kill {busy.pid}"])
customops.text("late")
os._exit(0)
