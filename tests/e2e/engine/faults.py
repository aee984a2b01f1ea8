#!/usr/bin/env python3
"""What happens to a training when something happens to ditrace, to the machine or to the training itself while it is
traced: faults.py DITRACE FOLDER TIMES [PART...]. Prints a table: how many targets met each fault under each engine, of
how many something had been recorded, and how many were harmed: died, stood still, or computed other numbers. With TIMES 0
the faults of BRIEFLY are met once, each under the engine that stands there. Parts are engines, and words in the names of
faults; without any it is all engines, all faults. Faults that cannot be made here are named with the reason."""

import contextlib
import ctypes
import mmap
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import threading
import time

import torch

PATIENCE = float(os.environ["PATIENCE"])
ditrace, folder, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
random.seed(1)


class Skip(Exception):
    pass


def cycle():
    """A training of three steps that gives the same number each time."""
    g = torch.Generator().manual_seed(7)
    w = [torch.randn(16, 16, generator=g).requires_grad_(True) for _ in range(3)]
    x = torch.randn(8, 16, generator=g)
    for _ in range(3):
        h = x
        for a in w:
            h = torch.nn.functional.gelu(h @ a)
        loss = (h - x).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for a in w:
                a -= 0.1 * a.grad
                a.grad = None
    return loss.item()


class Target:
    """A child that trains on two threads until it is told to end. `page` is shared, numbers of 8 bytes: 0 and 1 cycles done by
    each thread, 2 whether to end, 3 whether a number was wrong, 4 whether to do `extra`, a function (1), or it is done (3),
    5 the PID of a target in a namespace."""

    def __init__(self, extra=None, start=None):
        self.page = mmap.mmap(-1, 4096)
        self.extra = extra
        if start:
            self.pid = start(self)
            return
        self.pid = os.fork()
        if not self.pid:
            self.run()

    def run(self):
        status = 1
        with contextlib.suppress(BaseException):
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1):
                os.dup2(null, fd)
            torch.set_num_threads(1)
            wanted = cycle()
            other = threading.Thread(target=self.train, args=(wanted, 0), daemon=True)
            other.start()
            self.train(wanted, 1)
            other.join()
            status = 2 if self.get(3) else 0
        os._exit(status)

    def train(self, wanted, number):
        while not self.get(2):
            if cycle() != wanted:
                self.set(3, 1)
            self.set(number, self.get(number) + 1)
            if number and self.extra and self.get(4) == 1:
                self.set(4, 2)
                self.extra()
                self.set(4, 3)

    def get(self, i):
        return struct.unpack_from("Q", self.page, 8 * i)[0]

    def set(self, i, value):
        struct.pack_into("Q", self.page, 8 * i, value)

    def wait(self, holds):
        end = time.monotonic() + PATIENCE
        while not holds():
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return False
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def goes_on(self):
        """Both threads do two cycles more, so one whole one."""
        since = self.get(0), self.get(1)
        return self.wait(lambda: self.get(0) >= since[0] + 2 and self.get(1) >= since[1] + 2)

    def does_extra(self):
        self.set(4, 1)
        return self.wait(lambda: self.get(4) == 3)

    def end(self):
        """Why it was harmed, or None."""
        self.set(2, 1)
        stood = not self.wait(lambda: False) and not os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if stood:
            os.kill(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        if stood:
            return "stood still"
        if os.WIFSIGNALED(status):
            return f"died of signal {os.WTERMSIG(status)}"
        return {0: None, 2: "other numbers"}.get(os.WEXITSTATUS(status), "failed")


class Tracer:
    """ditrace attach. Its data and what it prints are in `folder`."""

    def __init__(self, target, engine, *options, data=None, before=None):
        self.data = data or os.path.join(folder, f"data.{random.getrandbits(32)}")
        self.err = os.path.join(folder, "err")
        with open(self.err, "w", encoding="utf-8") as err:
            self.process = subprocess.Popen(
                [ditrace, "attach", "--engine", engine, "-o", self.data, *options, str(target.pid)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, preexec_fn=before)
        self.recorded = False

    def records(self):
        """Wait until it has recorded something, or has ended."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError):
                if os.path.getsize(self.data) > 8192:
                    self.recorded = True
                    return True
            time.sleep(0.01)
        return False

    def says(self, text):
        with open(self.err, encoding="utf-8") as err:
            return text in err.read()

    def sometime(self):
        """A moment between its start and a while after its first records."""
        if random.random() < 0.5:
            self.records()
        time.sleep(random.random() * 0.5)

    def family(self):
        """Its own process and all that come from it."""
        found, parents = [self.process.pid], {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                parents[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])
        for pid in sorted(parents):
            if parents[pid] in found:
                found.append(pid)
        return found

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "ditrace did not end"
        with contextlib.suppress(OSError):
            self.recorded |= os.path.getsize(self.data) > 8192
            os.remove(self.data)
        return None


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def killed(target, engine):
    t = Tracer(target, engine)
    t.sometime()
    kill_all([t.process.pid])
    return t


def helper_killed(target, engine):
    t = Tracer(target, engine)
    t.sometime()
    helpers = t.family()[1:]
    kill_all(random.sample(helpers, min(1, len(helpers))))
    return t


def all_killed(target, engine):
    t = Tracer(target, engine)
    t.sometime()
    family = t.family()
    random.shuffle(family)
    kill_all(family)
    return t


def stopped(target, engine):
    t = Tracer(target, engine)
    t.records()
    pids = t.family() if engine != "ptrace" else [t.process.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    went_on = target.goes_on()
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    return t if went_on else "stood still with ditrace"


def disk_full(target, engine):
    full = os.path.join(folder, "full")
    os.makedirs(full, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", full], capture_output=True, check=False).returncode:
        raise Skip("no file system can be mounted")
    try:
        t = Tracer(target, engine, data=os.path.join(full, "data"))
        t.records()
        target.wait(lambda: t.says("No space left"))
    finally:
        subprocess.run(["umount", "-l", full], check=False)
    return t


def runs_out(which, start, used):
    """What there is of it is little from the start on (one of `start`), and later no more than is `used`, while the target
    forks."""
    def fault(target, engine):
        t = Tracer(target, engine, before=lambda: resource.setrlimit(which, 2 * (random.choice(start),)))
        t.records()
        for pid in t.family():
            with contextlib.suppress(OSError):
                resource.prlimit(pid, which, 2 * (used(f"/proc/{pid}"),))
        return t if target.does_extra() else "stood still or died on its way"
    return fault


def files_open(proc):
    return len(os.listdir(f"{proc}/fd"))


def address_space(proc):
    with open(f"{proc}/statm", encoding="ascii") as f:
        return int(f.read().split()[0]) * mmap.PAGESIZE


def frozen(target, engine):
    group = f"/sys/fs/cgroup/ditrace-faults-{os.getpid()}"
    try:
        os.makedirs(group, exist_ok=True)
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as f:
            f.write(str(target.pid))
        freeze = open(f"{group}/cgroup.freeze", "w", encoding="ascii")
    except OSError as e:
        raise Skip(f"no freezer: {e.strerror}") from e
    with freeze:
        t = Tracer(target, engine)
        if random.random() < 0.5:
            t.records()
        for state in "10":
            freeze.write(state)
            freeze.flush()
            time.sleep(random.random())
    t.records()
    return t


def fork_storm():
    """Eight children of four children each, as fast as it goes."""
    for _ in range(8):
        pid = os.fork()
        if not pid:
            torch.ones(4).add(1)
            for _ in range(4):
                if not os.fork():
                    torch.ones(4).sum()
                    os._exit(0)
            os._exit(0)
        os.waitpid(pid, 0)


def exec_chain():
    pid = os.fork()
    if not pid:
        torch.ones(4).add(1)
        os.execv("/bin/sh", ["sh", "-c", 'exec sh -c "exec sh -c \\"exec true\\""'])
    if os.waitpid(pid, 0)[1]:
        os._exit(3)


def set_user():
    os.setgid(65534)
    os.setuid(65534)


def seccomp():
    """openat fails with EPERM, all else is allowed: linux/seccomp.h, linux/filter.h"""
    rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 257), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *x) for x in rules))
    libc.prctl(38, 1, 0, 0, 0)
    if libc.prctl(22, 2, ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))):
        os._exit(3)


def does(target, engine):
    t = Tracer(target, engine)
    t.sometime()
    return t if target.does_extra() else "stood still or died on its way"


def in_pid_namespace(target):
    """The first process of a new PID namespace."""
    pid = os.fork()
    if pid:
        return pid
    if libc.unshare(0x20000000):
        os._exit(4)
    inner = os.fork()
    if not inner:
        target.run()
    target.set(5, inner)
    status = os.waitpid(inner, 0)[1]
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def namespaced(target, engine):
    if not target.wait(lambda: target.get(5)):
        raise Skip("no PID namespaces")
    outer, target.pid = target.pid, target.get(5)
    t = Tracer(target, engine)
    target.pid = outer
    t.records()
    return t


def debugged(target, engine):
    """Another tracer has one thread, as gdb has, and then lets it go."""
    if libc.ptrace(0x4206, target.pid, None, None):
        raise Skip("may not trace")
    t = Tracer(target, engine)
    if random.random() < 0.5:
        t.records()
    time.sleep(random.random())
    libc.ptrace(0x4207, target.pid, None, None)
    os.waitpid(target.pid, 0x40000000)
    libc.ptrace(17, target.pid, None, None)
    return t


def two(target, engine):
    t, other = Tracer(target, engine), Tracer(target, random.choice(engines))
    t.sometime()
    wrong = other.stop()
    return wrong or t


def pid_reused(target, engine):
    """It ends while it is traced, and another one gets its PID."""
    t = Tracer(target, engine)
    t.records()
    if wrong := target.end():
        return wrong
    try:
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as f:
            f.write(str(target.pid - 1))
    except OSError as e:
        raise Skip(f"PIDs cannot be chosen: {e.strerror}") from e
    target.__init__()
    return t


FAULTS = {
    "ditrace killed": (killed, {}),
    "one helper process killed": (helper_killed, {}),
    "all killed at once": (all_killed, {}),
    "ditrace stopped": (stopped, {}),
    "disk full": (disk_full, {}),
    "no more files (EMFILE)": (runs_out(resource.RLIMIT_NOFILE, range(60, 90), files_open), {"extra": fork_storm}),
    "no more memory (ENOMEM)": (runs_out(resource.RLIMIT_AS, [n << 20 for n in range(100, 2000)], address_space), {"extra": fork_storm}),
    "frozen cgroup": (frozen, {}),
    "fork storm": (does, {"extra": fork_storm}),
    "exec chain": (does, {"extra": exec_chain}),
    "setuid": (does, {"extra": set_user}),
    "seccomp": (does, {"extra": seccomp}),
    "PID namespace": (namespaced, {"start": in_pid_namespace}),
    "another tracer": (debugged, {}),
    "two ditrace at once": (two, {}),
    "PID reused": (pid_reused, {}),
}

# What no other test shows
BRIEFLY = {"one helper process killed": "ptrace", "all killed at once": "shim", "no more memory (ENOMEM)": "bpf",
           "fork storm": "shim", "PID reused": "bpf"}


def meet(name, engine):
    """One target meets the fault. Why it was harmed, or None, and whether it was traced."""
    fault, how = FAULTS[name]
    target = Target(**how)
    try:
        if not target.wait(lambda: target.get(0) and target.get(1)):
            raise Skip("the target does not begin")
        t = fault(target, engine)
    except Skip:
        kill_all([target.pid])
        os.waitpid(target.pid, 0)
        raise
    wrong = t if isinstance(t, str) else None
    if not wrong and not target.goes_on():
        wrong = "stood still or died"
    if not isinstance(t, str):
        stuck = t.stop()
        wrong = wrong or stuck
    return target.end() or wrong, not isinstance(t, str) and t.recorded


def row(name, cells):
    harmed = total = 0
    for engine, n in cells:
        why, traced = {}, 0
        for _ in range(n):
            try:
                wrong, recorded = meet(name, engine)
            except Skip as e:
                print(f"# {name}: not met, {e}", flush=True)
                return 0, 0
            traced += recorded
            if wrong:
                why[wrong] = why.get(wrong, 0) + 1
        told = "".join(f"; {k}: {v}" for k, v in why.items())
        print(f"# {name:<28} {engine:<7} {n:>4} targets, {traced:>4} traced, {sum(why.values())} harmed{told}", flush=True)
        harmed, total = harmed + sum(why.values()), total + n
    return total, harmed


ENGINES = ["bpf", "ptrace", "shim"]
parts = sys.argv[4:]
words = [p for p in parts if p not in ENGINES]
engines = [e for e in ENGINES if e in parts] or ENGINES
chosen = [name for name in FAULTS if not words or any(w in name for w in words)]
if any(all(w not in name for name in FAULTS) for w in words):
    sys.exit(f"a part of no engine or fault: {' '.join(words)}")
all_targets = all_harmed = 0
for name in chosen if times else [name for name in BRIEFLY if name in chosen and BRIEFLY[name] in engines]:
    cells = [(e, times) for e in engines] if times else [(BRIEFLY[name], 1)]
    total, harmed = row(name, cells)
    all_targets, all_harmed = all_targets + total, all_harmed + harmed
print(f"# {all_targets} targets, {all_harmed} harmed")
sys.exit(all_harmed > 0)
