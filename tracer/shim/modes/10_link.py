# Talking with ditrace, out of a program that knows nothing of it.
import array
import atexit
import fcntl
import socket
import stat
import struct
import threading

PATIENCE_S = 60
HIGH = 200  # where descriptors are out of the way of a program that counts its own


class Wire(Talk):
    """Talk over a socket, without buffers that a fork would inherit."""

    def __init__(self, fd, arena):
        self.fd, self.inode, self.arena = fd, os.fstat(fd).st_ino, arena
        self.size, self.map, self.heard = 0, None, b""

    def check(self):
        """Is it still ours? A program may close what it does not know, and get the number for its own."""
        st = os.fstat(self.fd)
        if not stat.S_ISSOCK(st.st_mode) or st.st_ino != self.inode:
            raise OSError("the connection to ditrace was closed")

    def say(self, **what):
        self.check()
        left = memoryview(json.dumps(what).encode() + b"\n")
        while left:
            left = left[os.write(self.fd, left):]

    def hear(self):
        while b"\n" not in self.heard:
            more = os.read(self.fd, 65536)
            if not more:
                raise OSError("ditrace is gone")
            self.heard += more
        line, _, self.heard = self.heard.partition(b"\n")
        return json.loads(line)

    def close(self):
        try:
            self.check()
            os.close(self.fd)
        except OSError:
            pass


class Link:
    """The connection of this process: lines of JSON, and for tensors a memory that both see (Talk). Whatever goes
    wrong with it ends all changes: the program then computes by itself."""

    def __init__(self):
        self.lock = threading.RLock()
        self.talk, self.out = None, False
        self.calls, self.passed, self.flushed = {}, {}, 0.0

    def connect(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(PATIENCE_S)
            s.connect(SOCKET)  # noqa: F821 the path that the library was given
            for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # nobody waits for a ditrace that stands still
                s.setsockopt(socket.SOL_SOCKET, way, struct.pack("ll", PATIENCE_S, 0))
            _, control, _, _ = s.recvmsg(1, socket.CMSG_SPACE(4))
            arena = array.array("i", control[0][2])[0]
            fd, high = (fcntl.fcntl(f, fcntl.F_DUPFD_CLOEXEC, HIGH) for f in (s.fileno(), arena))
            os.close(arena)
        os.set_blocking(fd, True)
        self.talk = Wire(fd, high)
        self.settings = self.ask(event="hello", pid=os.getpid(), torch=torch.__version__)
        keep(fd)  # noqa: F821 another of its names

    def careful(self, f, *args, **kwargs):
        with self.lock:
            try:
                return f(*args, **kwargs)
            except BaseException:
                self.out = True
                raise

    def say(self, **what):
        self.careful(self.talk.say, **what)

    def ask(self, **what):
        with self.lock:
            self.say(**what)
            return self.careful(self.talk.hear)

    def tensors(self, what, **tensors):
        self.careful(self.talk.tensors, what, **tensors)

    def count(self, feature, name, reason=None):
        with self.lock:
            if reason is None:
                self.calls[feature, name] = self.calls.get((feature, name), 0) + 1
            else:
                self.passed[feature, name, reason] = self.passed.get((feature, name, reason), 0) + 1
        if time.monotonic() - self.flushed > 0.2:
            self.flush()

    def flush(self):
        self.flushed = time.monotonic()
        if self.out:
            return
        with self.lock:
            done = [[f, n, None, k] for (f, n), k in self.calls.items()]
            done += [[f, n, r, k] for (f, n, r), k in self.passed.items()]
            self.say(event="totals", totals=done)

    def after_fork(self):
        """The parent's connection is the parent's alone."""
        was, old = self.out, self.talk
        self.__init__()
        self.out = was
        if old is not None:
            old.close()
        if not was:
            try:
                self.connect()
            except Exception:  # ditrace has ended
                self.out = True


LINK = Link()
