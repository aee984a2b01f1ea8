# The program of export --to parquet, after first.py: makes Parquet files of the rows that come through a socket. What is
# sent is described in parquet_out.c.
import os
import socket
import struct


class Channel:
    def __init__(self, fd):
        self.socket = socket.socket(fileno=fd)

    def header(self):
        """(kind, file, rows, size, a descriptor or None); None at the end."""
        size = struct.calcsize("=IIQQ")
        head, fd = b"", None
        while len(head) < size:
            part, control, _, _ = self.socket.recvmsg(size - len(head), socket.CMSG_SPACE(4))
            if not part:
                return None
            for _level, _kind, data in control:
                fd = struct.unpack("=i", data[:4])[0]
            head += part
        return (*struct.unpack("=IIQQ", head), fd)

    def body(self, size):
        whole = bytearray(size)
        rest = memoryview(whole)
        while rest:
            n = self.socket.recv_into(rest)
            if not n:
                raise EOFError
            rest = rest[n:]
        return whole


class Parts:
    """What follows a header, from part to part."""

    def __init__(self, body):
        self.buffer, self.at = pa.py_buffer(body), 0

    def take(self, size):
        part = self.buffer.slice(self.at, size)
        self.at += (size + 7) // 8 * 8
        return part


class File:
    TYPES = {"INT": "int64", "TIME": "timestamp[us]", "BOOL": "bool", "TEXT": "string"}

    def __init__(self, fd, text):
        columns = [line.split() for line in text.decode().splitlines()]
        self.kinds = [kind for _, kind in columns]
        self.schema = pa.schema([pa.field(name, pa.type_for_alias(self.TYPES[kind])) for name, kind in columns])
        self.stream = os.fdopen(fd, "wb")
        self.writer = pq.ParquetWriter(self.stream, self.schema, compression="zstd")

    def write(self, rows, body):
        parts = Parts(body)
        columns = []
        for _ in self.kinds:
            values = parts.take(8 * rows)
            columns.append((parts.take((rows + 7) // 8), values))
        count = struct.unpack("=q", parts.take(8).to_pybytes())[0]
        starts, texts = parts.take(4 * (count + 1)), parts.take(len(body) - parts.at)
        texts = pa.Array.from_buffers(pa.string(), count, [None, starts, texts])
        arrays = [self.array(kind, rows, of, texts) for kind, of in zip(self.kinds, columns)]
        self.writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema), row_group_size=rows)

    @staticmethod
    def array(kind, rows, of, texts):
        given = pa.timestamp("us") if kind == "TIME" else pa.int64()
        values = pa.Array.from_buffers(given, rows, list(of))
        return texts.take(values) if kind == "TEXT" else values.cast(pa.bool_()) if kind == "BOOL" else values

    def close(self):
        self.writer.close()
        self.stream.close()


def serve(channel):
    """Whether all has come, and is written."""
    files = {}
    while True:
        header = channel.header()
        if header is None:
            return False
        kind, number, rows, size, fd = header
        body = channel.body(size)
        if kind == 0:
            files[number] = File(fd, body)
        elif kind == 1:
            files[number].write(rows, body)
        else:
            for file in files.values():
                file.close()
            return True


def first_line(e):
    return (str(e).splitlines() or [""])[0] or type(e).__name__


channel = Channel(int(sys.argv[1]))
try:
    import pyarrow as pa
    import pyarrow.parquet as pq

    answer = "ok" if serve(channel) else ""
except Exception as e:
    answer = f"{type(e).__name__}: {first_line(e)}"
if answer:
    channel.socket.sendall(answer.encode())
channel.socket.close()
os._exit(answer != "ok")  # without waiting for what is not written, where something failed
