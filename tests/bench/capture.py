"""How fast tensors get to disk: ditrace from outside, ditorch's way in the same process (torch.save of arguments
and results in a TorchFunctionMode), and a plain copy and write of the same bytes, in turns. Each round
captures the same calls of one op on tensors of some MiB; what counts is how much longer the program took."""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

MIB, CALLS = 8, 8
PLACE = os.environ.get("BENCH_FOLDER", "/dev/shm" if os.path.isdir("/dev/shm") else None)  # no disk, whose speed would hide all
WORK = """
import ctypes, sys, time, torch
from torch.overrides import TorchFunctionMode
torch.set_num_threads(1)
n, calls, mode, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
a, b = torch.ones(n), torch.ones(n)

class Save(TorchFunctionMode):
    done = 0
    def __torch_function__(self, f, types, args=(), kwargs=None):
        if f is not torch.mul:
            return f(*args, **(kwargs or {}))
        self.done += 1
        torch.save({"name": "torch.mul", "args": args, "kwargs": kwargs or {}}, f"{folder}/{self.done}.in")
        out = f(*args, **(kwargs or {}))
        torch.save({"name": "torch.mul", "args": (out,), "kwargs": {}}, f"{folder}/{self.done}.out")
        return out

def plain(i):
    for k, t in enumerate((a, b, torch.mul(a, b))):
        copy = ctypes.string_at(t.data_ptr(), t.numel() * 4)
        with open(f"{folder}/{i}.{k}", "wb", 0) as f:
            f.write(copy)

begin = time.monotonic()
if mode == "save":
    with Save():
        for i in range(calls):
            torch.mul(a, b)
else:
    for i in range(calls):
        plain(i) if mode == "plain" else torch.mul(a, b)
print(time.monotonic() - begin)
"""


def seconds(command, mode):
    folder = tempfile.mkdtemp(dir=PLACE)
    try:
        command = [c.replace("@", folder) for c in command]
        p = subprocess.run(command + [sys.executable, "-c", WORK, str(MIB << 18), str(CALLS), mode, folder],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if p.returncode:
            sys.exit(f"{command or mode} failed: {p.stderr[-2000:]}")
        files = [os.path.join(d, f) for d, _, fs in os.walk(folder) for f in fs if f != "data"]
        wanted = {"none": 0}.get(mode if not command else "", 3 * CALLS * MIB << 20)
        size = sum(map(os.path.getsize, files))
        if not wanted <= size <= wanted * 1.01 + 1:
            sys.exit(f"{command or mode}: {size} bytes were written, not {wanted}")
        return float(p.stdout)
    finally:
        shutil.rmtree(folder)


SMALL = """
import time, torch
torch.set_num_threads(1)
a = torch.ones(4)
torch.mul(a, a)
begin = time.monotonic()
for i in range(3000):
    torch.mul(a, a)
print((time.monotonic() - begin) / 3000 * 1e6)
"""


def picked(rounds=5):
    """What a call that is not chosen costs, while another one is waited for."""
    took = {"none": [], "bpf": [], "ptrace": []}
    for _ in range(rounds):
        for way in took:
            with tempfile.TemporaryDirectory(dir=PLACE) as folder:
                traced = [os.environ["DITRACE"], "run", "--engine", way, f"--capture={folder}", "-o", f"{folder}/data",
                          "--ops", "mul", "--nth", "3000", "--"]
                p = subprocess.run((traced if way != "none" else []) + [sys.executable, "-c", SMALL], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                took[way].append(float(p.stdout))
    bare, bpf, ptrace = (statistics.median(t) for t in took.values())
    print(f"  a call that --nth leaves out costs {bpf - bare:.1f} us more with bpf, {ptrace - bare:.1f} with ptrace")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=5)
    rounds = p.parse_args().rounds
    ditrace = [os.environ["DITRACE"], "run", "--capture=@", "-o", "@/data", "--ops", "mul", "--"]
    ways = {"none": ([], "none"), "plain": ([], "plain"), "torch.save": ([], "save"), "ditrace": (ditrace, "none")}
    took = {way: [] for way in ways}
    for _ in range(rounds):
        for way, args in ways.items():
            took[way].append(seconds(*args))
    base = statistics.median(took.pop("none"))
    rate = {way: 3 * CALLS * MIB / max(statistics.median(s) - base, 1e-9) for way, s in took.items()}
    print(f"  capture of {CALLS} calls, {3 * CALLS * MIB} MiB, to {PLACE or tempfile.gettempdir()}")
    for way, what in ("plain", "plain copy and write"), ("torch.save", "torch.save in a TorchFunctionMode"), ("ditrace", "ditrace --capture"):
        print(f"  {what:34} {rate[way]:7.0f} MiB/s  {rate[way] / rate['plain']:5.2f} of plain")
    picked()
    ratio = rate["ditrace"] / rate["plain"]
    print(f"  goal {'met' if ratio >= 0.5 else 'NOT MET'}: {ratio:.2f} of a plain copy and write (goal: at least 0.5); "
          f"{rate['ditrace'] / rate['torch.save']:.2f} of torch.save in the process")


main()
