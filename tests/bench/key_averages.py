"""What torch.profiler takes from the end of a run to its table (key_averages), in time and memory an event, on ever
more events until it has taken so much time or memory; beside ditrace report from a trace to its table."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

IN_ONE = """
import json, resource, sys, time, torch
from torch.profiler import profile, ProfilerActivity
n = int(sys.argv[1])
x, y = torch.randn(4, 4), torch.randn(4)

def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()

torch.set_num_threads(1)
with profile(activities=[ProfilerActivity.CPU]):
    x + y
before = rss()
p = profile(activities=[ProfilerActivity.CPU])
p.__enter__()
for _ in range(n):
    x + y
    x * y
begin = time.process_time()
p.__exit__(None, None, None)
averages = p.key_averages()
averages.table()
took = time.process_time() - begin
print(json.dumps({"events": sum(a.count for a in averages), "s": took,
                  "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before}))
"""


def profiler(n):
    out = subprocess.run([sys.executable, "-c", IN_ONE, str(n)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(out.stdout.splitlines()[-1])


def report(events):
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace")
        subprocess.run([os.path.join(os.environ["BUILD"], "tests/tools/big_trace"), str(events), trace], check=True)
        with open(os.devnull, "w") as null:
            child = subprocess.Popen([os.environ["DITRACE"], "report", "--pager=never", trace], stdout=null)
            _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit("ditrace report: status %d" % status)
        return {"events": events, "s": usage.ru_utime + usage.ru_stime, "bytes": usage.ru_maxrss * 1024}


def line(name, r):
    print("  %-28s %10d events  %8.2f us  %9.1f bytes an event  (%.1f s, %.0f MiB)"
          % (name, r["events"], r["s"] / r["events"] * 1e6, r["bytes"] / r["events"], r["s"], r["bytes"] / 2**20))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--mib", type=float, default=2048)
    p.add_argument("--events", type=int, default=10_000_000)
    args = p.parse_args()
    print("from the events to the table, processor time and memory")
    n, seen = 12_500, None
    while True:
        seen = profiler(n)
        line("torch.profiler key_averages", seen)
        if seen["s"] > args.seconds / 2 or seen["bytes"] > args.mib / 2 * 2**20:
            break
        n *= 2
    for events in seen["events"], args.events:
        ours = report(events)
        line("ditrace report", ours)
    print("  an event takes torch.profiler %.0f times the time, and %.0f times the memory"
          % (seen["s"] / seen["events"] / (ours["s"] / ours["events"]),
             seen["bytes"] / seen["events"] / (ours["bytes"] / ours["events"])))


main()
