"""What reading a trace costs: report and the exports on a trace of many events, their rate and memory."""
import argparse
import os
import subprocess
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("--events", type=int, default=10_000_000, help="for report")
parser.add_argument("--ranks", type=int, default=8)
parser.add_argument("--of-rank", type=int, default=1_000_000, help="events of each rank")
parser.add_argument("--others", type=int, default=2_000_000, help="for its options, and for the exports")
options = parser.parse_args()
ditrace = os.path.abspath(os.environ["DITRACE"])
tool = os.path.join(os.path.abspath(os.environ["BUILD"]), "tests/tools/big_trace")


def measure(what, events, command):
    """Runs it; prints events a second of processor time, which other programs do not change much, the time it
    took, and the most memory it held."""
    start = time.monotonic()
    with open(os.devnull, "w") as null:
        process = subprocess.Popen(command, stdout=null)
        _, status, usage = os.wait4(process.pid, 0)
    wall, busy = time.monotonic() - start, usage.ru_utime + usage.ru_stime
    if status:
        raise SystemExit("%s: status %d" % (" ".join(command), status))
    print("  %-32s %6.2f M events/s  %6.1f s  %7.1f MiB"
          % (what, events / busy / 1e6, wall, usage.ru_maxrss / 1024))


with tempfile.TemporaryDirectory() as folder:
    trace, other = os.path.join(folder, "trace"), os.path.join(folder, "out")
    print("a trace of %d events" % options.events)
    measure("write", options.events, [tool, str(options.events), trace])
    print("  %.1f bytes an event" % (os.path.getsize(trace) / options.events))
    measure("report", options.events, [ditrace, "report", "--pager=never", trace])
    n = options.others
    print("a trace of %d events" % n)
    subprocess.run([tool, str(n), trace], check=True)
    measure("report by op, shape and thread", n, [ditrace, "report", "--group", "op,shape,thread", trace])
    measure("report --side-by-side", n, [ditrace, "report", "--side-by-side", trace])
    measure("report --call-graph callees", n, [ditrace, "report", "--call-graph", "callees", trace])
    measure("diff with itself", n, [ditrace, "diff", trace, trace])
    for form in "folded", "chrome", "speedscope", "sqlite":
        measure("export --to " + form, n, [ditrace, "export", "--to", form, "-o", other, trace])
    ranks, n = os.path.join(folder, "ranks"), options.ranks * options.of_rank
    print("%d ranks, %d events each" % (options.ranks, options.of_rank))
    measure("write", n, [tool, str(options.of_rank), ranks, str(options.ranks)])
    measure("report", n, [ditrace, "report", "--pager=never", ranks])
    measure("report --skew", n, [ditrace, "report", "--pager=never", "--skew", ranks])
