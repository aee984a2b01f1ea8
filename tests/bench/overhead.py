"""What an iteration of a training takes under ditrace, torch.profiler and py-spy, against untraced: they
take short turns on one process, an untraced turn between any two."""

import argparse
import array
import itertools
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SETTLE_NS = 200_000_000  # at the beginning of each turn, of whatever kind; not counted


class Trainer:
    def __init__(self, times, work=("training",), under=(), errors=None):
        self.times = times
        command = [*under, sys.executable, os.path.join(HERE, "trainer.py"), times, *work]
        os.environ["KINETO_LOG_LEVEL"] = "99"
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.pid, self.width = map(int, self.process.stdout.readline().split())

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        """The iterations: (begin, end, CPU time) in ns."""
        self.tell("end")
        self.process.wait()
        t = array.array("q")
        with open(self.times, "rb") as f:
            t.frombytes(f.read())
        return list(zip(t[::3], t[1::3], t[2::3]))


class Turn:
    def __init__(self, kind, begin, end, stop=None, cpu=None, text=""):
        self.kind, self.begin, self.end = kind, begin, end
        self.stop, self.cpu, self.text = stop, cpu, text


def spend(seconds):
    begin = time.monotonic_ns()
    time.sleep(seconds)
    return begin, time.monotonic_ns()


def untraced(trainer, seconds):
    return Turn("untraced", *spend(seconds))


def profiler_turn(every):
    """One turn of `every` shows a table, since that takes long."""
    count = itertools.count()

    def turn(trainer, seconds):
        trainer.tell("profile")
        begin, end = spend(seconds)
        showing = next(count) % every == 0
        stop = float(trainer.tell("show")) if showing else trainer.tell("leave") and None
        return Turn("torch.profiler", begin, end, stop)

    return turn


def cpu_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def beside(kind, command, ready, seconds):
    """A turn of a tracer that is a process of its own and ends with SIGINT."""
    with tempfile.TemporaryFile("w+") as out:
        p = subprocess.Popen(command, stdout=out, stderr=out)
        deadline = time.monotonic() + 60
        while not ready():
            if p.poll() is not None or time.monotonic() > deadline:
                p.kill()
                out.seek(0)
                sys.exit(f"{kind} did not start: {out.read()}")
            time.sleep(0.02)
        cpu = cpu_of(p.pid)
        begin, end = spend(seconds)
        cpu = (cpu_of(p.pid) - cpu) / seconds
        p.send_signal(signal.SIGINT)
        status = p.wait()
        stop = (time.monotonic_ns() - end) / 1e9
        out.seek(0)
        text = out.read()
        if status:
            sys.exit(f"{kind} failed with {status}: {text}")
        return Turn(kind, begin, end, stop, cpu, text)


def ditrace_turn(folder):
    def turn(trainer, seconds):
        data = os.path.join(folder, "data")
        if os.path.exists(data):
            os.remove(data)
        command = [os.environ["DITRACE"], "attach", "-o", data, str(trainer.pid)]
        return beside("ditrace", command, lambda: os.path.exists(data) and os.path.getsize(data) > 4096, seconds)

    return turn


def pyspy_turn(program, folder):
    def turn(trainer, seconds):
        started = time.monotonic()
        command = [program, "record", "--pid", str(trainer.pid), "-d", "unlimited", "-f", "raw", "-o", os.path.join(folder, "spy")]
        return beside("py-spy", command, lambda: time.monotonic() - started > 1, seconds)

    return turn


def play(trainer, kinds, rounds, seconds):
    turns = [untraced(trainer, seconds)]
    for r in range(rounds):
        for kind in kinds[r % len(kinds) :] + kinds[: r % len(kinds)]:
            turns += [kind(trainer, seconds), untraced(trainer, seconds)]
    return turns


def measure(turns, iterations):
    """Sets each turn's iterations (wall and CPU time in ms) and their ratios to the untraced turns around it."""
    for t in turns:
        inside = [(e - b, cpu) for b, e, cpu in iterations if b >= t.begin + SETTLE_NS and e <= t.end]
        t.ms = [wall / 1e6 for wall, _ in inside]
        t.medians = [statistics.median(x) for x in zip(*inside)]
    for i, t in enumerate(turns):
        around = [u.medians for u in turns[max(i - 1, 0) : i + 2] if u.kind == "untraced"]
        t.ratio, t.cpu_ratio = (m / statistics.mean(u) for m, u in zip(t.medians, zip(*around)))


def ops_an_iteration(trainer, folder):
    """Counted from one aten::randint, the first op of each iteration, to the last in a recorded file."""
    data = os.path.join(folder, "data")
    ditrace = os.environ["DITRACE"]
    subprocess.run([ditrace, "attach", "--for", "1s", "-o", data, str(trainer.pid)], check=True, capture_output=True)
    first, n = [], 0
    script = subprocess.Popen([ditrace, "script", "--format", "jsonl", data], stdout=subprocess.PIPE, text=True)
    for n, line in enumerate(script.stdout):
        if '"op":"aten::randint.low"' in line:
            first.append(n)
    script.wait()
    return (first[-1] - first[0]) / (len(first) - 1)


def recorded_and_lost(turns):
    found = [re.search(r"([\d,]+) ops, ([\d,]+) lost", t.text).groups() for t in turns if t.kind == "ditrace"]
    return (sum(int(f[i].replace(",", "")) for f in found) for i in (0, 1))


def show(turns, ops):
    """Prints the table; returns the ratio of each kind."""
    base = statistics.median([x for t in turns if t.kind == "untraced" for x in t.ms])
    ratio = {}
    print(f"  {'':15}{'iteration':>10}  {'against untraced':23}{'its CPU time':23}{'an op call':>11}{'to stop':>9}{'beside':>8}")
    for kind in dict.fromkeys(t.kind for t in turns):
        mine = [t for t in turns if t.kind == kind]
        row = f"  {kind:15}{statistics.median([x for t in mine for x in t.ms]):7.2f} ms"
        ratio[kind] = statistics.median(t.ratio for t in mine)
        if kind != "untraced":
            row += f"  {spread(t.ratio for t in mine):23}{spread(t.cpu_ratio for t in mine):23}"
            row += f"{(ratio[kind] - 1) * base / ops * 1000:+8.2f} us{statistics.median(t.stop for t in mine if t.stop is not None):7.2f} s"
        if mine[0].cpu is not None:
            row += f"{100 * statistics.median(t.cpu for t in mine):6.0f} %"
        print(row)
    return ratio


def spread(values):
    values = list(values)
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def goal(met, text):
    print(f"  goal {'met' if met else 'NOT MET'}: {text}")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=12)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--pyspy", default="")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kinds = [ditrace_turn(folder), profiler_turn(6)] + ([pyspy_turn(args.pyspy, folder)] if args.pyspy else [])
        trainer = Trainer(os.path.join(folder, "times"))
        turns = play(trainer, kinds, args.rounds, args.seconds)
        ops = ops_an_iteration(trainer, folder)
        iterations = trainer.end()
    measure(turns, iterations)
    print(f"  a small transformer (width {trainer.width}), {ops:,.0f} op calls an iteration, one thread; {args.rounds} rounds of {args.seconds:g} s turns")
    ratio = show(turns, ops)
    print("  (to stop: from the request to the table; beside: a CPU's time that the tracer itself takes meanwhile)")
    print("  ditrace recorded {:,} op calls and lost {:,}".format(*recorded_and_lost(turns)))
    d, t = (100 * (ratio[k] - 1) for k in ("ditrace", "torch.profiler"))
    goal(d < t, f"ditrace's overhead (+{d:.0f} %) is {'' if d < t else 'not '}below torch.profiler's (+{t:.0f} %)")


if __name__ == "__main__":
    main()
