"""Calls an operator of its own while the tracer, its parent, stands still, and ends at once."""

import os
import subprocess

import customops

tracer = os.getppid()
customops.ops.none()
subprocess.Popen(["sh", "-c", f"kill -STOP {tracer}; sleep 0.3; kill -CONT {tracer}"])
while ") T " not in open(f"/proc/{tracer}/stat").read():
    pass
customops.text("late")
os._exit(0)
