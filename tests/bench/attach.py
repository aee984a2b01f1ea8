"""What it takes to attach to an idle process and to leave it: ditrace with all ops, bpftrace with a hundred
of them, in turns; and how long a thread of the process stands still while the engine shim is brought in."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

GOAL_S = 0.5
PROBED = 100
SHIM = "ditrace, engine shim"
IDLE = "import os, time, torch; torch.ones(2); print(os.path.dirname(torch.__file__), flush=True); time.sleep(3600)"


def wall(command):
    begin = time.monotonic()
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if p.returncode:
        sys.exit(f"{command[0]} failed: {p.stdout}")
    return time.monotonic() - begin


def some_ops(library):
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    calls = [s.split()[-1] for s in symbols.splitlines() if "_ZN2at4_ops" in s and "4callE" in s]
    return sorted(calls)[:PROBED]


def bpftrace_command(library, pid):
    probes = ",".join(f"uprobe:{library}:{s}" for s in some_ops(library))
    return ["bpftrace", "-p", str(pid), "-e", probes + " { @n = count(); } interval:ms:1 { exit(); }"]


def stood_ms(pid):
    status = subprocess.run([os.environ["DITRACE"], "ctl", "--format", "json", str(pid)], check=True, stdout=subprocess.PIPE)
    return json.loads(status.stdout)["stood_ns"] / 1e6


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rounds", type=int, default=5)
    rounds = p.parse_args().rounds
    idle = subprocess.Popen([sys.executable, "-c", IDLE], stdout=subprocess.PIPE, text=True)
    library = os.path.realpath(os.path.join(idle.stdout.readline().strip(), "lib", "libtorch_cpu.so"))
    with tempfile.TemporaryDirectory() as folder:
        attach = [os.environ["DITRACE"], "attach", "--for", "1ms", "-o", os.path.join(folder, "data"), str(idle.pid)]
        commands = {"ditrace, all ops": attach, SHIM: [*attach, "--engine", "shim"]}
        if shutil.which("bpftrace"):
            commands[f"bpftrace, {PROBED} ops"] = bpftrace_command(library, idle.pid)
        seconds, stood = {name: [] for name in commands}, []
        for i in range(rounds):
            for name, command in commands.items():
                if name.startswith("ditrace") or i == rounds // 2:  # bpftrace once: it takes minutes
                    seconds[name].append(wall(command))
                if name == SHIM:
                    stood.append(stood_ms(idle.pid))
    idle.kill()
    print("  attach to an idle process and leave it at once")
    for name, s in seconds.items():
        print(f"  {name:20} {statistics.median(s):6.2f} s  ({min(s):.2f} to {max(s):.2f}, {len(s)} times)")
    print(f"  {SHIM}: a thread stands still for {statistics.median(stood):.1f} ms  ({min(stood):.1f} to {max(stood):.1f})")
    s = statistics.median(seconds["ditrace, all ops"])
    print(f"  goal {'met' if s < GOAL_S else 'NOT MET'}: attach and detach take {s:.2f} s (goal: below {GOAL_S} s)")


main()
