"""The packets of a file of Perfetto."""

import collections
import struct


def varint(b, at):
    n = shift = 0
    while True:
        n |= (b[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if b[at - 1] < 0x80:
            return n, at


def fields(b):
    """The fields of a message: {number: [values]}."""
    out, at = collections.defaultdict(list), 0
    while at < len(b):
        key, at = varint(b, at)
        if key & 7 == 0:
            value, at = varint(b, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<Q", b, at)[0], at + 8
        else:
            assert key & 7 == 2, key
            n, at = varint(b, at)
            value, at = b[at : at + n], at + n
            assert len(value) == n
        out[key >> 3].append(value)
    return out


def packets(path):
    with open(path, "rb") as f:
        return [fields(b) for b in fields(f.read())[1]]
