"""The CPU time that ditrace itself takes for an op call under the engine shim: to read, decode, sum up and write it. In a
training of many small ops, once the code of its ops has been read; and what of that is in the kernel."""

import argparse
import os
import subprocess
import tempfile
import time

from overhead import Trainer, goal, ops_an_iteration

MOST_US = 1


def cpu_of(pid):
    """us in all threads of a process (proc_pid_schedstat), and of these the part in the kernel (by ticks)."""
    us = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
            us += int(f.read().split()[0]) / 1e3
    with open(f"/proc/{pid}/stat") as f:
        user, kernel = map(int, f.read().rsplit(")", 1)[1].split()[11:13])
    return us, user, kernel


def turn(trainer, folder, seconds, profile):
    data = os.path.join(folder, "data")
    p = subprocess.Popen(
        [os.environ["DITRACE"], "attach", "--engine", "shim", "-o", data, str(trainer.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (os.path.exists(data) and os.path.getsize(data) > 4096):
        time.sleep(0.02)
    time.sleep(1)
    begin, was = time.monotonic_ns(), cpu_of(p.pid)
    if profile:
        command = ["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", "1999", "-o", profile, "-p", str(p.pid), "sleep", str(seconds)]
        subprocess.run(command, check=True)
    else:
        time.sleep(seconds)
    now, end = cpu_of(p.pid), time.monotonic_ns()
    p.terminate()
    p.wait()
    size = os.path.getsize(data)
    os.remove(data)
    return begin, end, [b - a for a, b in zip(was, now)], size


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--perf", default="", help="where perf(1) is to write what it samples of the last round")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(os.path.join(folder, "times"))
        turns = [turn(trainer, folder, args.seconds, args.perf if i == args.rounds - 1 else "") for i in range(args.rounds)]
        ops = ops_an_iteration(trainer, folder)
        iterations = trainer.end()
    each = []
    for begin, end, (us, user, kernel), _ in turns:
        n = ops * sum(b >= begin and e <= end for b, e, _ in iterations)
        each.append((us / n, kernel / max(1, user + kernel), n))
    each.sort()
    us, kernel, n = each[len(each) // 2]
    goal(
        us <= MOST_US,
        f"ditrace takes {us:.2f} us of CPU time for an op call ({each[0][0]:.2f} to {each[-1][0]:.2f}), {100 * kernel:.0f} % of it in the kernel, of {MOST_US} us; {n:,.0f} op calls in {args.seconds:g} s",
    )


main()
