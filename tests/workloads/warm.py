#!/usr/bin/env python3
"""Makes an interpreter that has imported PyTorch already: warm.py FILE. While this runs, FILE takes options, a program or -c and
code, and arguments as Python does, keeps the descriptors up to 13, and is run by a fork of this process."""

import contextlib
import gc
import os
import signal
import socket
import sys

import torch  # noqa: F401

import ending

with contextlib.suppress(ImportError):
    import torch._dynamo  # noqa: F401 by optimizers, modes and checkpoints of newer ones, which takes as long again

CLIENT = """#!%s -IS
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(__file__ + ".socket")
fds = [fd for fd in range(14) if fd != s.fileno() and os.path.exists("/proc/self/fd/%%d" %% fd)]
socket.send_fds(s, [b"x"], fds)
s.sendall(repr((fds, sys.argv[1:], os.getcwd(), dict(os.environ))).encode() + b"\\n")
os._exit(int(s.makefile().readline() or 70))
""" % sys.executable


def become(connection):
    received = [os.dup2(fd, 100 + i) for i, fd in enumerate(socket.recv_fds(connection, 1, 14)[1])]
    places, argv, folder, environment = eval(connection.makefile().readline())
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        with contextlib.suppress(BrokenPipeError):  # who asked was not patient
            connection.sendall(b"%d\n" % (os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)))
        os._exit(0)
    for fd, place in zip(received, places):
        os.dup2(fd, place)
        os.close(fd)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    argv = argv[2:] if argv[0] == "-W" else argv
    code = argv.pop(1) if argv[0] == "-c" else open(0 if argv[0] == "-" else argv[0], encoding="utf-8").read()
    sys.argv, globals()["__file__"], sys.path[0] = argv, argv[0], os.path.dirname(argv[0])
    return compile(code, argv[0], "exec")


def end(*_):
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGKILL))
    signal.alarm(10)  # for what was left running by a test that was killed
    try:
        while os.wait():
            pass
    except ChildProcessError:  # what all of them took is counted
        os._exit(0)


def serve(path):
    os.setpgid(0, 0)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".socket")
    listener.listen()
    with open(path + ".new", "w", encoding="utf-8") as f:
        os.fchmod(f.fileno(), 0o755)
        f.write(CLIENT)
    signal.signal(signal.SIGTERM, end)
    gc.freeze()  # what is collected in a child is copied
    os.rename(path + ".new", path)
    while True:
        connection = listener.accept()[0]
        if not os.fork():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            return become(connection)
        connection.close()


with ending.Ending():
    exec(serve(sys.argv[1]))
