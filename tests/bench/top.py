#!/usr/bin/env python3
"""top.py TRACE_TOOL: what the live view costs: with recorded events at several rates, its share of a core and its
memory; live, with a program that calls LIVE_RATE ops a second under the engines that can follow it, the share of
the view and of all its processes together. Nothing is asserted."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

SECONDS, OPS_A_STEP, LIVE_RATE = 5, 100, 25_000

PACED = f"""
import time, torch
x = torch.ones(4, 4)
print("ready", flush=True)
begun, done = time.monotonic(), 0
try:
    while True:
        for _ in range(50):
            x.relu()
        done += 50
        time.sleep(max(0, begun + done / {LIVE_RATE} - time.monotonic()))
except KeyboardInterrupt:
    print(round(done / (time.monotonic() - begun)))
"""


def own_seconds(pid):
    """Processor time of the process itself, without its children's."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(arguments, seconds):
    """Run the view on a terminal for so long; how long it was, its processor time, that with its children's, and
    its largest memory."""
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
    took, own = time.monotonic() - started, own_seconds(pid)
    os.write(terminal, b"q")
    os.set_blocking(terminal, True)
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass
    usage = os.wait4(pid, 0)[2]
    return took, own, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def record(tool, path, events):
    """Write so many events; returns how many there are in a second of the trace."""
    subprocess.run([tool, path, str(max(2, events // (OPS_A_STEP + 11))), "model.py", str(OPS_A_STEP)], check=True)
    return (OPS_A_STEP + 11) / 1.2725e-3  # a step takes 1.2725 ms of the trace


def live():
    python = next((p for p in os.environ.get("DITRACE_TEST_PYTHONS", "").split(":") if os.path.exists(p)), None)
    if not python:
        print("ditrace top, live: skipped, DITRACE_TEST_PYTHONS names no Python")
        return
    for engine in ("bpf", "shim"):
        with subprocess.Popen([python, "-c", PACED], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as paced:
            paced.stdout.readline()
            took, view, everything, _ = watch(["--engine", engine, str(paced.pid)], 4 * SECONDS)
            paced.send_signal(signal.SIGINT)
            rate = int(paced.stdout.readline())
        shares = f"{100 * view / took:.1f} % of a core for the view, {100 * everything / took:.1f} % with the tracing"
        print(f"ditrace top, live, {rate:,} ops/s, engine {engine}: {shares}", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data")
        for rate in (100, 10_000, 25_000, 100_000, 500_000):
            density = record(sys.argv[1], path, rate * (SECONDS + 1))
            took, cpu, _, memory = watch(["--speed", f"{rate / density:.6f}", path], SECONDS)
            print(f"ditrace top, {rate:7,} events/s: {100 * cpu / took:5.1f} % of a core, {memory:.0f} MiB", flush=True)
        events = 3_000_000
        record(sys.argv[1], path, events)
        took, cpu, _, memory = watch(["--speed", "0", path], 100)
        print(f"ditrace top, as fast as it can: {events / took:,.0f} events/s, {memory:.0f} MiB")
    live()


if __name__ == "__main__":
    main()
