"""Listens at the socket PATH as ditrace would, for one connection of its library, and prints how many bytes it was told:
stranger.py PATH"""

import fcntl
import os
import socket
import sys

s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
s.listen()
print("listening", flush=True)
s = s.accept()[0]
memory = [os.memfd_create("ditrace", os.MFD_ALLOW_SEALING) for _ in range(2)]
for m, size in zip(memory, (4096, 8)):  # the arena, struct modes_control (shim_share.h)
    os.ftruncate(m, size)
    fcntl.fcntl(m, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
try:
    socket.send_fds(s, [b"\0"], memory)
    told = len(s.recv(65536))
except OSError:
    told = 0
print("told", told, flush=True)
