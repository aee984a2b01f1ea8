#!/usr/bin/env python3
"""top.py TRACE_TOOL: what the live view costs with recorded events at several rates: its share of a core and
its memory. Nothing is asserted."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time

SECONDS, OPS_A_STEP = 5, 100


def watch(arguments, seconds):
    """Run the view on a terminal for so long; its processor time and largest memory."""
    pid, terminal = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm-256color"
        os.execv(os.environ["DITRACE"], ["ditrace", "top", *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    end, seen, started = time.monotonic() + seconds, b"", time.monotonic()
    os.set_blocking(terminal, False)
    while time.monotonic() < end and b"end of file" not in seen:
        try:
            seen = seen[-100:] + os.read(terminal, 65536)
        except BlockingIOError:
            time.sleep(0.02)
    took = time.monotonic() - started
    os.write(terminal, b"q")
    os.set_blocking(terminal, True)
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass
    usage = os.wait4(pid, 0)[2]
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def record(tool, path, events):
    """Write so many events; returns how many there are in a second of the trace."""
    subprocess.run([tool, path, str(max(2, events // (OPS_A_STEP + 11))), "model.py", str(OPS_A_STEP)], check=True)
    return (OPS_A_STEP + 11) / 1.2725e-3  # a step takes 1.2725 ms of the trace


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data")
        for rate in (100, 10_000, 100_000, 500_000):
            density = record(sys.argv[1], path, rate * (SECONDS + 1))
            took, cpu, memory = watch(["--speed", f"{rate / density:.6f}", path], SECONDS)
            print(f"ditrace top, {rate:7,} events/s: {100 * cpu / took:5.1f} % of a core, {memory:.0f} MiB", flush=True)
        events = 3_000_000
        record(sys.argv[1], path, events)
        took, cpu, memory = watch(["--speed", "0", path], 100)
        print(f"ditrace top, as fast as it can: {events / took:,.0f} events/s, {memory:.0f} MiB")


if __name__ == "__main__":
    main()
