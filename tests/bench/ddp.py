"""What an iteration of a training with DistributedDataParallel on several ranks takes under ditrace and torch.profiler, against
untraced: they take short turns on the same processes, an untraced turn between any two."""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SETTLE_NS = 300_000_000  # at the beginning of each turn; not counted


class Ranks:
    def __init__(self, folder, n):
        self.mode, self.times = os.path.join(folder, "mode"), os.path.join(folder, "times")
        self.tell("plain")
        rank = [os.path.join(HERE, "ddp_rank.py"), os.path.join(folder, "store"), self.mode, self.times]
        launch = os.path.join(HERE, "..", "workloads", "ranks", "launch.py")
        self.process = subprocess.Popen([sys.executable, launch, *rank], env={**os.environ, "RANKS": str(n)})
        while not os.path.exists(self.times) or os.path.getsize(self.times) < 1000:
            if self.process.poll() is not None:
                sys.exit("the ranks did not start")
            time.sleep(0.1)

    def tell(self, mode):
        with open(self.mode + ".new", "w") as f:
            f.write(mode)
        os.rename(self.mode + ".new", self.mode)

    def change(self, mode):
        """Wait until they are in it."""
        self.tell(mode)
        while self.last() != mode:
            time.sleep(0.05)

    def last(self):
        with open(self.times, "rb") as f:
            f.seek(-200, os.SEEK_END)
            return f.read().splitlines()[-2].split()[0].decode()

    def end(self):
        """The iterations: (begin, end) in ns."""
        self.tell("end")
        self.process.wait()
        with open(self.times) as f:
            return [tuple(map(int, line.split()[1:])) for line in f]


def spend(seconds):
    begin = time.monotonic_ns()
    time.sleep(seconds)
    return begin, time.monotonic_ns()


def plain(ranks, folder, seconds):
    return spend(seconds)


def profiler(ranks, folder, seconds):
    ranks.change("profile")
    turn = spend(seconds)
    ranks.change("plain")
    return turn


def recorded(data):
    """Of how many ranks there are events."""
    return sum(f.stat().st_size > 16384 for f in os.scandir(data)) if os.path.isdir(data) else 0


def ditrace(ranks, folder, seconds):
    data = os.path.join(folder, "data")
    tracer = subprocess.Popen([os.environ["DITRACE"], "attach", "--tree", "-o", data + "/", str(ranks.process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while recorded(data) < args.ranks:
        if tracer.poll() is not None:
            sys.exit("ditrace did not start: " + tracer.stderr.read())
        time.sleep(0.05)
    turn = spend(seconds)
    tracer.send_signal(signal.SIGINT)
    text = tracer.communicate()[1]
    if tracer.returncode:
        sys.exit("ditrace failed: " + text)
    subprocess.run(["rm", "-r", data], check=True)
    return turn


parser = argparse.ArgumentParser()
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--rounds", type=int, default=6)
parser.add_argument("--seconds", type=float, default=2)
args = parser.parse_args()
with tempfile.TemporaryDirectory() as folder:
    ranks = Ranks(folder, args.ranks)
    turns = [(plain, plain(ranks, folder, args.seconds))]
    for _ in range(args.rounds):
        for kind in ditrace, profiler:
            turns += [(k, k(ranks, folder, args.seconds)) for k in (kind, plain)]
    iterations = ranks.end()
medians = [statistics.median(e - b for b, e in iterations if b >= begin + SETTLE_NS and e <= end) for _, (begin, end) in turns]
print(f"  DistributedDataParallel, {args.ranks} ranks; {args.rounds} rounds of {args.seconds:g} s turns")
print("  %-16s %8.2f ms an iteration" % ("untraced", statistics.median(medians[::2]) / 1e6))
for kind, name in (ditrace, "ditrace"), (profiler, "torch.profiler"):
    ratios = [2 * m / (medians[i - 1] + medians[i + 1]) for i, m in enumerate(medians) if turns[i][0] == kind]
    print("  %-16s %+8.1f %%, between %+.1f and %+.1f" % (name, *(100 * (r - 1) for r in (statistics.median(ratios), min(ratios), max(ratios)))))
