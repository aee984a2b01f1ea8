"""What sampling at 99 Hz costs a training loop, and the sampler itself: ditrace record and py-spy record in turns
with nothing. The cost is the loop's time on a processor for an iteration, which other load hardly changes."""

import argparse
import mmap
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

LOOP = """
import mmap, struct, sys, time, torch
torch.set_num_threads(1)
file = open(sys.argv[1], "r+b")
notes = mmap.mmap(file.fileno(), 16)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, n = torch.randn(32, 64), 0
print("ready", flush=True)
while True:
    optimizer.zero_grad()
    model(x).square().sum().backward()
    optimizer.step()
    n += 1
    notes[:] = struct.pack("qq", n, time.process_time_ns())
"""


def children_s():
    t = os.times()
    return t.children_user + t.children_system


def step_us(notes, seconds):
    n, cpu = struct.unpack("qq", notes[:])
    time.sleep(seconds)
    m, later = struct.unpack("qq", notes[:])
    return (later - cpu) / max(m - n, 1) / 1000


def turn(command, notes, seconds):
    """us of the loop an iteration before the command and with it, and the share of a processor that it took."""
    bare = step_us(notes, seconds)
    before, begin = children_s(), time.monotonic()
    tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if command else None
    time.sleep(seconds / 4)  # it begins
    us = step_us(notes, seconds)
    if tool and tool.wait():
        sys.exit(f"{command[0]} failed")
    return bare, us, (children_s() - before) / (time.monotonic() - begin)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=4)
    p.add_argument("--pyspy", default="")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "notes")
        with open(path, "wb") as f:
            f.write(bytes(16))
        loop = subprocess.Popen([sys.executable, "-c", LOOP, path], stdout=subprocess.PIPE, text=True)
        try:
            if loop.stdout.readline() != "ready\n":
                sys.exit("the loop did not begin")
            whole = str(int(1.5 * args.seconds) + 1)
            peers = {
                "nothing": None,
                "ditrace record": [os.environ["DITRACE"], "record", "--for", whole + "s", "-o",
                                   os.path.join(folder, "data"), "--pid", str(loop.pid)],
            }
            if args.pyspy:
                peers["py-spy record"] = [args.pyspy, "record", "-r", "99", "-d", whole, "-f", "raw", "-o",
                                          os.path.join(folder, "spy"), "--pid", str(loop.pid)]
                peers["py-spy record --native"] = [*peers["py-spy record"], "--native"]
            with open(path, "r+b") as f:
                notes = mmap.mmap(f.fileno(), 16)
                seen = {name: [] for name in peers}
                for _ in range(args.rounds):
                    for name, command in peers.items():
                        seen[name].append(turn(command, notes, args.seconds))
        finally:
            loop.kill()
    print("sampling at 99 Hz: CPU time of a training step, how much more than just before, and what the sampler takes "
          "of a processor")
    for name, turns in seen.items():
        more = statistics.median(us / bare - 1 for bare, us, _ in turns)
        us, share = (statistics.median(t[i] for t in turns) for i in (1, 2))
        print(f"  {name:24} {us:8.1f} us  {100 * more:+5.1f} %   {100 * share:5.1f} %")
    if not args.pyspy:
        print("  py-spy is not here: tests/deps bench")


main()
