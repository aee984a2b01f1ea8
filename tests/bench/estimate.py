"""The figure of overhead against the truth: by how much the summary of `attach` says that it makes the threads slower,
beside the CPU time that an iteration takes more (with the engine ptrace the time, as threads stand while they are
stopped). One process, in short turns, an untraced turn between any two."""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

from overhead import SETTLE_NS, Trainer, Turn, beside, spend

DITRACE = os.environ["DITRACE"]
WORKS = {"loop": "a loop of torch.add", "training": "a small transformer", "resnet": "a small residual network", "threads": "torch.add in two threads"}


def run(command):
    return subprocess.run([DITRACE, *command], check=True, capture_output=True, text=True)


def summary_of(data):
    return json.loads(run(["report", "-n", "1", "--format", "json", data]).stdout)["summary"]


def traced(trainer, engine, seconds, folder):
    data = os.path.join(folder, "data")
    command = [DITRACE, "attach", "--engine", engine, "-o", data, str(trainer.pid)]
    turn = beside(engine, command, lambda: os.path.exists(data) and os.path.getsize(data) > 4096, seconds)
    said = summary_of(data)
    turn.said, turn.is_least = slowdown(said["probe_ns"], said["cpu_ns"]), said["probe_is_least"]
    os.remove(data)
    return turn


def slowdown(probe_ns, cpu_ns):
    """In percent; None: not told, as where probes took more than three quarters of the time."""
    told = probe_ns and cpu_ns and probe_ns <= 0.75 * cpu_ns
    return 100 * probe_ns / (cpu_ns - probe_ns) if told else None


def play(trainer, engines, rounds, seconds, folder):
    turns = [Turn("untraced", *spend(seconds))]
    for r in range(rounds):
        for engine in engines[r % len(engines) :] + engines[: r % len(engines)]:
            turns += [traced(trainer, engine, seconds, folder), Turn("untraced", *spend(seconds))]
    return turns


def measured(trainer, engine, folder):
    """What --measure-overhead finds."""
    data = os.path.join(folder, "data")
    run(["attach", "--engine", engine, "--measure-overhead=12", "--for", "1s", "-o", data, str(trainer.pid)])
    found = summary_of(data)["measured"]
    os.remove(data)
    return f"{found['slower_percent']:.0f} ± {found['error_percent']:.0f} %" if found else "too few ops"


def measure(turns, iterations):
    for t in turns:
        inside = [(cpu, e - b) for b, e, cpu in iterations if b >= t.begin + SETTLE_NS and e <= t.end]
        t.taken = [statistics.median(x) for x in zip(*inside)]
    for i, t in enumerate(turns):
        if t.kind != "untraced" and t.taken and turns[i - 1].taken and turns[i + 1].taken:
            k = t.kind == "ptrace"
            t.truth = 100 * (t.taken[k] / statistics.mean((turns[i - 1].taken[k], turns[i + 1].taken[k])) - 1)


def median_of(values):
    known = [v for v in values if v is not None]
    return statistics.median(known) if 2 * len(known) > len(values) else None


def words(said, is_least):
    return "most of the time" if said is None else f"{'at least' if is_least else 'about'} {said:.0f} %"


def is_right(truth, said, is_least):
    """Within a fifth, or where the least is said, no less."""
    return truth >= 200 if said is None else said <= 1.2 * truth and (is_least or said >= 0.8 * truth)


def show(turns, found):
    for engine in dict.fromkeys(t.kind for t in turns if t.kind != "untraced"):
        mine = [t for t in turns if t.kind == engine and hasattr(t, "truth")]
        if not mine:
            print(f"    {engine:8}no iteration ended in these turns")
            continue
        truths = [t.truth for t in mine]
        truth, said = statistics.median(truths), (median_of([t.said for t in mine]), mine[0].is_least)
        row = f"    {engine:8}{f'{truth:.0f} % ({min(truths):.0f} to {max(truths):.0f})':26}{words(*said):22}"
        print(row + f"{'right' if is_right(truth, *said) else 'WRONG':10}{found.get(engine, '')}")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--engines", default="shim,bpf,ptrace")
    p.add_argument("--works", default=",".join(WORKS))
    args = p.parse_args()
    engines = args.engines.split(",")
    print(f"  {'overhead':10}{'the truth':26}{'the summary says':32}--measure-overhead")
    for work in args.works.split(","):
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(os.path.join(folder, "times"), [work])
            turns = play(trainer, engines, args.rounds, args.seconds, folder)
            found = {e: measured(trainer, e, folder) for e in engines if e != "ptrace"}
            iterations = trainer.end()
        measure(turns, iterations)
        print(f"  {WORKS[work]}")
        show(turns, found)


main()
