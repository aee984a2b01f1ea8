"""The CPU time that an op call takes more under the engines shim and bpf and under torch.profiler, in a
training and in a loop of one small op: one process that all of them enter and leave, in short turns, an
untraced turn between any two. The observer does nothing: it shows what PyTorch itself takes to tell anybody
of each op's inputs and outputs, and the engine shim cannot take less. Of the engine bpf the same is shown by
eBPF programs that do nothing: at the entry of each op, and at the entry and the exit. What ditrace's library takes that lies
idle in processes (their ditrace was killed) shows beside processes that never had it: several, for equal ones differ, too."""

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time

from overhead import SETTLE_NS, Trainer, Turn, beside, goal, ops_an_iteration, spend, spread

LOOP = 200  # as in trainer.py
DITRACE = os.environ["DITRACE"]
EMPTY_PROBES = os.path.join(os.environ["BUILD"], "tests/tools/empty_probes")
UNTRACED, SHIM, BPF = "untraced", "shim", "bpf"
PLAIN, IDLE, PAIRS = "untouched", "shim, idle", 3
BARE, FULL, OBSERVER = "profiler, bare", "profiler, full", "empty observer"
UPROBE, UPROBES = "empty uprobe", "2 empty uprobes"
PROBED = {UPROBE: "entry", UPROBES: "both"}
TOLD = {BARE: ("bare", "leave"), FULL: ("profile", "leave"), OBSERVER: ("observe", "unobserve")}


class Peers:
    def __init__(self, folder, work):
        self.folder = folder
        self.trainers = {UNTRACED: self.start([work], UNTRACED)}
        same = [work, str(self.trainers[UNTRACED].width)]
        inside = [DITRACE, "run", "--engine", "shim", "-o", os.path.join(folder, "inside"), "--"]
        for i in range(PAIRS):
            self.trainers[PLAIN, i] = self.start(same, f"{PLAIN} {i}")
            self.trainers[IDLE, i] = self.start(same, f"{IDLE} {i}", inside)
            # What it had put into the program takes itself out when it has found out.
            self.trainers[IDLE, i].process.kill()
        time.sleep(2)
        for t in self.trainers.values():
            t.tell("rest")

    def start(self, work, name, under=()):
        return Trainer(os.path.join(self.folder, name), work, under, subprocess.DEVNULL)

    def under(self, engine, seconds):
        data = os.path.join(self.folder, "data")
        command = [DITRACE, "attach", "--engine", engine, "-o", data, str(self.trainers[UNTRACED].pid)]
        turn = beside(engine, command, lambda: os.path.exists(data) and os.path.getsize(data) > 4096, seconds)
        os.remove(data)
        return turn

    def probed(self, kind, seconds):
        ready = os.path.join(self.folder, "ready")
        turn = beside(kind, [EMPTY_PROBES, str(self.trainers[UNTRACED].pid), PROBED[kind], ready], lambda: os.path.exists(ready), seconds)
        os.remove(ready)
        return turn

    def turn(self, kind, seconds):
        trainer = self.trainers.get(kind, self.trainers[UNTRACED])
        trainer.tell("go")
        if kind in (SHIM, BPF):
            turn = self.under(kind, seconds)
        elif kind in PROBED:
            turn = self.probed(kind, seconds)
        elif kind in TOLD:
            trainer.tell(TOLD[kind][0])
            turn = Turn(kind, *spend(seconds))
            trainer.tell(TOLD[kind][1])
        else:
            turn = Turn(kind, *spend(seconds))
        turn.trainer = trainer
        trainer.tell("rest")
        return turn

    def end(self):
        """The iterations of each process: (begin, end, CPU time) in ns."""
        for t in self.trainers.values():
            t.tell("go")
        return {t: t.end() for t in self.trainers.values()}


def play(peers, rounds, seconds):
    kinds, turns = [SHIM, BPF, FULL, BARE, OBSERVER, UPROBE, UPROBES], [peers.turn(UNTRACED, seconds)]
    for r in range(rounds):
        for kind in kinds[r % len(kinds) :] + kinds[: r % len(kinds)]:
            turns += [peers.turn(kind, seconds), peers.turn(UNTRACED, seconds)]
    return turns


def play_idle(peers, rounds, seconds):
    return [peers.turn((kind, i), seconds) for _ in range(rounds) for i in range(PAIRS) for kind in (PLAIN, IDLE)]


def measure(turns, iterations):
    for t in turns:
        t.us = statistics.median(cpu / 1e3 for b, e, cpu in iterations[t.trainer] if b >= t.begin + SETTLE_NS and e <= t.end)


def compare(turns, base):
    for i, t in enumerate(turns):
        around = [u.us for u in turns[max(i - 1, 0) : i + 2] if u.kind == base]
        t.ratio, t.more = t.us / statistics.mean(around), t.us - statistics.mean(around)


def show(turns, ops):
    """Prints the table; returns the us an op call of each kind."""
    more = {}
    print(f"  {'':16}{'CPU an iteration':>17}  {'against untraced':23}{'an op call':>11}{'of profiler, full':>19}")
    cost = {k: statistics.median(t.more for t in turns if t.kind == k) for k in (UNTRACED, OBSERVER, SHIM, UPROBE, UPROBES, BPF, BARE, FULL)}
    for kind in cost:
        mine = [t for t in turns if t.kind == kind]
        more[kind] = cost[kind] / ops
        row = f"  {kind:16}{statistics.median(t.us for t in mine) / 1e3:14.2f} ms"
        told = [1 + float(n) / 100 for t in mine for n in re.findall(r"made it about ([\d.]+) % slower", getattr(t, "text", ""))]
        row_end = f"  its summary says {spread(told)}" if told else ""
        print(row + ("" if kind == UNTRACED else f"  {spread(t.ratio for t in mine):23}{more[kind]:+8.2f} us{100 * cost[kind] / cost[FULL]:17.0f} %{row_end}"))
    return more


def show_idle(turns):
    """Of each process the median of its turns: those of equal ones lie apart, too."""
    ms = {PLAIN: [], IDLE: []}
    for kind, i in dict.fromkeys(t.kind for t in turns):
        ms[kind].append(statistics.median(t.us / 1e3 for t in turns if t.kind == (kind, i)))
    plain, idle = (", ".join(f"{x:.3g}" for x in sorted(ms[kind])) for kind in (PLAIN, IDLE))
    goal(min(ms[IDLE]) <= max(ms[PLAIN]), f"loaded but idle: {idle} ms an iteration, {plain} in processes that never had it")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--seconds", type=float, default=0.6)
    args = p.parse_args()
    for work, most in (("training", 0.3), ("loop", 0.15)):
        with tempfile.TemporaryDirectory() as folder:
            peers = Peers(folder, work)
            turns, idle = play(peers, args.rounds, args.seconds), play_idle(peers, args.rounds, args.seconds)
            peers.trainers[UNTRACED].tell("go")
            ops = LOOP if work == "loop" else ops_an_iteration(peers.trainers[UNTRACED], folder)
            peers.trainers[UNTRACED].tell("rest")
            iterations = peers.end()
        measure(turns + idle, iterations)
        compare(turns, UNTRACED)
        print(f"  {'a loop of torch.add' if work == 'loop' else 'the training'}, {ops:,.0f} op calls an iteration; {args.rounds} rounds of {args.seconds:g} s turns")
        more = show(turns, ops)
        least = f"an observer that does nothing takes {more[OBSERVER]:.2f}"
        goal(more[SHIM] < most, f"the engine shim takes {more[SHIM]:.2f} us an op call, of {most:g}; {least}")
        if work == "training":
            share = f"{100 * more[SHIM] / more[FULL]:.0f} % of torch.profiler's with shapes and stacks"
            goal(more[SHIM] < more[FULL], f"its overhead is below torch.profiler's: {share}")
            goal(more[SHIM] <= more[FULL] / 4, f"{share}, of 25 %")
            least = f"two breakpoints an op that do nothing take {more[UPROBES]:.2f}"
            goal(more[BPF] < more[FULL], f"the engine bpf takes {more[BPF]:.2f} us an op call, torch.profiler {more[FULL]:.2f}; {least}")
        show_idle(idle)


main()
