#!/usr/bin/env python3
"""Calls of aten::add.Tensor in two ways, by the binding and by torch.ops, each with its number as first argument;
meanwhile urgent data comes on a socket, of which the kernel tells by SIGURG. Prints how many signals came."""

import fcntl
import os
import signal
import socket

import torch

caught = 0


def count(number, frame):
    global caught
    caught += 1


signal.signal(signal.SIGURG, count)
server = socket.create_server(("127.0.0.1", 0))
ours = socket.create_connection(server.getsockname())
theirs, _ = server.accept()
fcntl.fcntl(ours, fcntl.F_SETOWN, os.getpid())

for n in range(1, 61):
    if n % 3:
        torch.add(torch.full((2,), float(n)), torch.ones(2))
    else:
        torch.ops.aten.add.Tensor(torch.full((2,), float(n)), torch.ones(2))
    if n % 10 == 0:
        before = caught
        theirs.send(b"!", socket.MSG_OOB)
        while caught == before:
            torch.mul(torch.ones(2), 2)
print("caught", caught)
