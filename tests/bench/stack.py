"""How long a look at its stacks keeps a training loop from going on: the longest time between two of its steps while
ditrace stack, py-spy dump and nothing look at it in turns. A busy machine has such times without anybody looking."""

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
x = torch.ones(64)
print("ready", flush=True)
last, longest, turn = time.monotonic_ns(), 0, 0
while True:
    torch.add(x, x)
    now = time.monotonic_ns()
    wanted = struct.unpack_from("q", notes, 0)[0]
    if wanted != turn:
        turn, longest = wanted, 0
    elif now - last > longest:
        longest = now - last
        struct.pack_into("q", notes, 8, longest)
    last = now
"""


def turn(command, notes, number):
    """ms of the longest pause while the command ran, and how long it ran."""
    struct.pack_into("qq", notes, 0, number, 0)
    begin = time.monotonic()
    if command:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    else:
        time.sleep(0.5)
    took = time.monotonic() - begin
    return struct.unpack_from("q", notes, 8)[0] / 1e6, took * 1000


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--pyspy", default="")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "notes")
        with open(path, "wb") as f:
            f.write(bytes(16))
        loop = subprocess.Popen([sys.executable, "-c", LOOP, path], stdout=subprocess.PIPE, text=True)
        try:
            loop.stdout.readline()
            pid = ["--pid", str(loop.pid)]
            ditrace = [os.environ["DITRACE"], "stack", str(loop.pid)]
            peers = {"nothing": None, "ditrace stack": ditrace, "ditrace stack --no-native": [*ditrace, "--no-native"]}
            if args.pyspy:
                peers["py-spy dump"] = [args.pyspy, "dump", *pid]
                peers["py-spy dump --native"] = [args.pyspy, "dump", "--native", *pid]
                peers["py-spy dump --nonblocking"] = [args.pyspy, "dump", "--nonblocking", *pid]
            seen = {name: [] for name in peers}
            with open(path, "r+b") as f:
                notes = mmap.mmap(f.fileno(), 16)
                for i in range(args.rounds):
                    for k, (name, command) in enumerate(peers.items()):
                        seen[name].append(turn(command, notes, i * len(peers) + k + 1))
        finally:
            loop.kill()
    print("a look at the stacks of a busy thread: its longest pause meanwhile (median, least), and what the look took")
    for name, turns in seen.items():
        pauses, took = zip(*turns)
        print(f"  {name:26} {statistics.median(pauses):8.2f} ms {min(pauses):8.2f} ms {statistics.median(took):8.0f} ms")
    if not args.pyspy:
        print("  py-spy is not here: tests/deps bench")


main()
