"""The CPU time that an op call takes more under the engines shim and bpf and under torch.profiler, in a
training and in a loop of one small op. Processes that take short turns while the others rest: one untraced,
which torch.profiler and the engine bpf enter and leave, one with ditrace's library inside, and one with the
library inside whose ditrace was killed."""

import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time

from overhead import SETTLE_NS, Trainer, Turn, beside, goal, ops_an_iteration, spend, spread

LOOP = 200  # as in trainer.py
DITRACE = os.environ["DITRACE"]
UNTRACED, SHIM, IDLE, BPF = "untraced", "shim", "shim, idle", "bpf"
BARE, FULL = "profiler, bare", "profiler, full"


class Peers:
    def __init__(self, folder, work):
        self.folder = folder
        inside = [DITRACE, "run", "--engine", "shim", "-o"]
        self.trainers = {
            UNTRACED: self.start(work, UNTRACED),
            SHIM: self.start(work, SHIM, [*inside, os.path.join(folder, "inside")]),
            IDLE: self.start(work, IDLE, [*inside, os.path.join(folder, "idle")]),
        }
        # What it had put into the program takes itself out when it has found out.
        self.trainers[IDLE].process.kill()
        time.sleep(2)
        for t in self.trainers.values():
            t.tell("rest")

    def start(self, work, name, under=()):
        return Trainer(os.path.join(self.folder, name), work, under, subprocess.DEVNULL)

    def turn(self, kind, seconds):
        trainer = self.trainers.get(kind, self.trainers[UNTRACED])
        trainer.tell("go")
        if kind == BPF:
            data = os.path.join(self.folder, "data")
            command = [DITRACE, "attach", "--engine", "bpf", "-o", data, str(trainer.pid)]
            turn = beside(kind, command, lambda: os.path.exists(data) and os.path.getsize(data) > 4096, seconds)
            os.remove(data)
        elif kind in (BARE, FULL):
            trainer.tell("bare" if kind == BARE else "profile")
            turn = Turn(kind, *spend(seconds))
            trainer.tell("leave")
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
    kinds, turns = [SHIM, BPF, FULL, BARE, IDLE], [peers.turn(UNTRACED, seconds)]
    for r in range(rounds):
        for kind in kinds[r % len(kinds) :] + kinds[: r % len(kinds)]:
            turns += [peers.turn(kind, seconds), peers.turn(UNTRACED, seconds)]
    return turns


def measure(turns, iterations):
    for t in turns:
        t.us = statistics.median(cpu / 1e3 for b, e, cpu in iterations[t.trainer] if b >= t.begin + SETTLE_NS and e <= t.end)
    for i, t in enumerate(turns):
        around = [u.us for u in turns[max(i - 1, 0) : i + 2] if u.kind == UNTRACED]
        t.ratio, t.more = t.us / statistics.mean(around), t.us - statistics.mean(around)


def show(turns, ops):
    """Prints the table; returns the us an op call of each kind."""
    more = {}
    print(f"  {'':16}{'CPU an iteration':>17}  {'against untraced':23}{'an op call':>11}")
    for kind in (UNTRACED, IDLE, SHIM, BPF, BARE, FULL):
        mine = [t for t in turns if t.kind == kind]
        more[kind] = statistics.median(t.more for t in mine) / ops
        row = f"  {kind:16}{statistics.median(t.us for t in mine) / 1e3:14.2f} ms"
        print(row + ("" if kind == UNTRACED else f"  {spread(t.ratio for t in mine):23}{more[kind]:+8.2f} us"))
    return more


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--seconds", type=float, default=0.6)
    args = p.parse_args()
    for work, most in (("training", 0.3), ("loop", 0.15)):
        with tempfile.TemporaryDirectory() as folder:
            peers = Peers(folder, work)
            turns = play(peers, args.rounds, args.seconds)
            peers.trainers[UNTRACED].tell("go")
            ops = LOOP if work == "loop" else ops_an_iteration(peers.trainers[UNTRACED], folder)
            peers.trainers[UNTRACED].tell("rest")
            iterations = peers.end()
        measure(turns, iterations)
        print(f"  {'a loop of torch.add' if work == 'loop' else 'the training'}, {ops:,.0f} op calls an iteration; {args.rounds} rounds of {args.seconds:g} s turns")
        more = show(turns, ops)
        goal(more[SHIM] < most, f"the engine shim takes {more[SHIM]:.2f} us an op call, of {most:g}")
        if work == "training":
            share = more[SHIM] / more[FULL]
            goal(share <= 0.25, f"{100 * share:.0f} % of torch.profiler's with shapes and stacks, of 25 %")


main()
