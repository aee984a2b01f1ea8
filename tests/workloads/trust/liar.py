"""A program that says it is one whose functions ditrace changes, and answers `ditrace ctl` itself: liar.py SOCKET keys|flood|silence|nothing,
with the library preloaded."""

import contextlib
import ctypes
import json
import os
import socket
import sys

path, how = sys.argv[1:3]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
SHIM_IN = 2  # tracer/engine/shim/shim_share.h has these, and struct shim_state
state = (ctypes.c_char * 256).in_dll(ctypes.CDLL(None), "ditrace_shim_state")
ctypes.memmove(ctypes.addressof(state) + 64, SHIM_IN.to_bytes(4, "little") + path.encode() + b"\0", 4 + len(path) + 1)
print(f"pid {os.getpid()}", flush=True)
while True:
    s = listener.accept()[0]
    s.sendall(b"x")
    with contextlib.suppress(OSError):
        if how == "keys":
            s.sendall(json.dumps({"status": {"\033]0;owned\007\u202e": "\033[31mred", "\u2028": 3}}).encode() + b"\n")
            s.recv(65536)  # the order: what is left unread resets the connection
        while how == "flood":
            s.sendall(b"[" * 65536)
    if how != "silence":
        s.close()
