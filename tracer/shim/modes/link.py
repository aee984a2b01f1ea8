"""Talking with ditrace, out of a program that knows nothing of it."""
import array
import fcntl
import json
import os
import resource
import socket
import struct
import threading

import torch

from ditrace_modes.native import SOCKET, end, is_out, is_trusted, keep, stands_still, watch
from ditrace_runner.talk import Talk

PATIENCE_S = 60
LOOK_S = 1  # how often a stopped ditrace is looked for
HIGH = 200  # where descriptors are out of the way of a program that counts its own


def patiently(fd, f, *args):
    """What f returns, which waits for ditrace for LOOK_S: not for one that is stopped, nor longer than PATIENCE_S."""
    for _ in range(0, PATIENCE_S, LOOK_S):
        try:
            return f(*args)
        except (BlockingIOError, socket.timeout):
            if stands_still(fd):
                break
    raise OSError("ditrace stands still")


def high():
    """HIGH, or as much of it as a low limit on open files leaves."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HIGH if soft == resource.RLIM_INFINITY else min(HIGH, soft // 2)


class Wire(Talk):
    """Talk over a socket, without buffers that a fork would inherit."""

    def __init__(self, fd, arena):
        self.fd, self.arena, self.files = fd, arena, [(f, os.fstat(f)) for f in (fd, arena)]
        self.size, self.map, self.heard = 0, None, b""

    def check(self):
        """Are they still ours? A program may close what it does not know, and get the number for its own."""
        if not all(os.path.samestat(os.fstat(fd), was) for fd, was in self.files):
            raise OSError("the connection to ditrace was closed")

    def make_room(self, size):
        self.check()  # its file would be truncated

    def say(self, **what):
        self.check()
        left = memoryview(json.dumps(what).encode() + b"\n")
        while left:
            left = left[patiently(self.fd, os.write, self.fd, left):]

    def hear(self):
        while b"\n" not in self.heard:
            more = patiently(self.fd, os.read, self.fd, 65536)
            if not more:
                raise OSError("ditrace is gone")
            self.heard += more
        line, _, self.heard = self.heard.partition(b"\n")
        return json.loads(line)

    def close(self):
        self.map = None
        try:
            self.check()
            os.close(self.fd)
            os.close(self.arena)
        except OSError:
            pass


class Link:
    """The connection of this process: lines of JSON, and for tensors a memory that both see (Talk). Whatever goes
    wrong with it ends all changes: the program then computes by itself."""

    def __init__(self):
        self.lock = threading.RLock()
        self.talk = None

    def connect(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(PATIENCE_S)
            s.connect(SOCKET)
            s.settimeout(LOOK_S)
            if not is_trusted(s.fileno()):
                raise PermissionError("another user listens at ditrace's socket")
            for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # nobody waits for a ditrace that stands still
                s.setsockopt(socket.SOL_SOCKET, way, struct.pack("ll", LOOK_S, 0))
            _, control, _, _ = patiently(s.fileno(), s.recvmsg, 1, socket.CMSG_SPACE(8))
            arena, shared = array.array("i", control[0][2])
            fd, memory = (fcntl.fcntl(f, fcntl.F_DUPFD_CLOEXEC, high()) for f in (s.fileno(), arena))
            whole = watch(shared) and fcntl.fcntl(arena, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
            os.close(arena)
            os.close(shared)
            if not whole:  # a mapping of it could end the program
                os.close(fd)
                os.close(memory)
                raise OSError("what ditrace gave is no memory")
        os.set_blocking(fd, True)
        self.talk = Wire(fd, memory)
        self.settle("hello")
        keep(fd)

    def careful(self, f, *args, **kwargs):
        with self.lock:
            try:
                return f(*args, **kwargs)
            except BaseException:
                end()
                raise

    def say(self, **what):
        self.careful(self.talk.say, **what)

    def ask(self, **what):
        with self.lock:
            self.say(**what)
            return self.careful(self.talk.hear)

    def tensors(self, what, **tensors):
        return self.careful(self.talk.tensors, what, **tensors)

    def settle(self, event):
        """Ask what is to be done."""
        self.settings = self.ask(event=event, pid=os.getpid(), torch=torch.__version__)

    def after_fork(self):
        """The parent's connection is the parent's alone."""
        old = self.talk
        self.__init__()
        if old is not None:
            old.close()
        try:
            if is_out():
                raise OSError("ditrace has ended")
            self.connect()
        except Exception:  # it ends with the parent's
            end()
            keep(-1)


LINK = Link()
