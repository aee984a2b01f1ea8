"""Copy a trace as if it had been recorded a day earlier: older.py FROM TO. The header has the wall-clock time, and its checksum."""

import struct
import sys
import zlib

AT = 32  # realtime_ns, perf/trace/trace_format.h
with open(sys.argv[1], "rb") as f:
    trace = bytearray(f.read())
struct.pack_into("<Q", trace, AT, struct.unpack_from("<Q", trace, AT)[0] - 86400 * 10**9)
struct.pack_into("<I", trace, 60, zlib.crc32(trace[:60]))
with open(sys.argv[2], "wb") as f:
    f.write(trace)
