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
notes = mmap.mmap(open(sys.argv[1], "r+b").fileno(), 16)
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


def turn(command, notes, seconds):
    """us of the loop an iteration, and the share of a processor that the command took."""
    before, begin = children_s(), time.monotonic()
    tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if command else None
    time.sleep(seconds / 4)  # it begins
    n, cpu = struct.unpack("qq", notes[:])
    time.sleep(seconds)
    m, later = struct.unpack("qq", notes[:])
    if tool and tool.wait():
        sys.exit(f"{command[0]} failed")
    return (later - cpu) / max(m - n, 1) / 1000, (children_s() - before) / (time.monotonic() - begin)


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
            loop.stdout.readline()
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
    bare = statistics.median(us for us, _ in seen["nothing"])
    print("sampling at 99 Hz: CPU time of a training step, and what the sampler takes of a processor")
    for name, turns in seen.items():
        us, share = (statistics.median(x) for x in zip(*turns))
        print(f"  {name:24} {us:8.1f} us  {100 * (us / bare - 1):+5.1f} %   {100 * share:5.1f} %")
    if not args.pyspy:
        print("  py-spy is not here: tests/deps bench")


main()
