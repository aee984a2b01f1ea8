"""The trace FROM as TO, as another host would have written it whose clock of the day is 200 ms ahead: its header names another
clock. CLOCK_MONOTONIC is the same, so nothing is to be added to its times. See perf/trace/trace_format.h."""

import struct
import sys
import zlib

AHEAD = 200_000_000

with open(sys.argv[1], "rb") as f:
    data = f.read()
magic, version, size, features, monotonic, realtime, clock, zero, _ = struct.unpack("<8sIIQQQ16sII", data[:64])
clock = bytes(b ^ 1 for b in clock)
header = struct.pack("<8sIIQQQ16sI", magic, version, size, features, monotonic, realtime + AHEAD, clock, zero)
with open(sys.argv[2], "wb") as f:
    f.write(header + struct.pack("<I", zlib.crc32(header)) + data[64:])
