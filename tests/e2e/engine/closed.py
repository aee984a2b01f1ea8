"""The user that runs this can access neither the socket in the folder DOOR nor the descriptors and the memory of two
processes: closed.py DOOR TRACED TRACER"""

import os
import socket
import sys

door, *processes = sys.argv[1:]


def refused(what, do):
    try:
        do()
    except PermissionError:
        return True
    print("not refused:", what)
    return False


def ways():
    s = socket.socket(socket.AF_UNIX)
    yield "the socket", lambda: s.connect(door + "/socket")
    yield "its folder", lambda: os.listdir(door)
    for pid in processes:
        yield "descriptors", lambda pid=pid: os.listdir(f"/proc/{pid}/fd")
        yield "memory", lambda pid=pid: open(f"/proc/{pid}/mem", "rb")
        yield "mappings", lambda pid=pid: os.listdir(f"/proc/{pid}/map_files")


sys.exit(not all([refused(*way) for way in ways()]))
